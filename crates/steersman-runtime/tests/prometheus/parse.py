"""Reads an exposition from standard input and writes its families as JSON."""

import json
import sys

from prometheus_client.parser import text_string_to_metric_families

families = []
for family in text_string_to_metric_families(sys.stdin.read()):
    samples = [[sample.name, sample.labels, repr(sample.value)] for sample in family.samples]
    families.append({"name": family.name, "type": family.type, "help": family.documentation, "samples": samples})
json.dump(families, sys.stdout)
