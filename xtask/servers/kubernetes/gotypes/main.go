// Command gotypes prints how Go reads and writes the types of the API: what OpenAPI does not say. For each type its fields,
// with the Go type (a pointer or not, named or not) and whether an empty value is left out. With the argument `protobuf`, the
// messages that they are sent in; with `samples`, objects in JSON and in protobuf.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Types that are more to JSON than their structure: by the last two elements of the package and the name.
var special = map[string]string{
	"api.resource.Quantity":    "quantity",
	"meta.v1.Duration":         "duration",
	"meta.v1.FieldsV1":         "any",
	"meta.v1.MicroTime":        "microtime",
	"meta.v1.Time":             "time",
	"pkg.runtime.RawExtension": "any",
	"util.intstr.IntOrString":  "intorstring",

	"apiextensions.v1.JSON":                         "any",
	"apiextensions.v1.JSONSchemaPropsOrArray":       "schema-or-list",
	"apiextensions.v1.JSONSchemaPropsOrBool":        "schema-or-bool",
	"apiextensions.v1.JSONSchemaPropsOrStringArray": "schema-or-strings",
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// types holds, by type and field, the Go type and its options.
var types = map[string]map[string]string{}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	if err := apiregistration.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "protobuf":
			return printProtobuf(os.Stdout)
		case "samples":
			return printSamples(os.Stdout)
		default:
			return fmt.Errorf("%q is neither protobuf nor samples", os.Args[1])
		}
	}
	for kind, known := range scheme.Scheme.AllKnownTypes() {
		if kind.Version != runtime.APIVersionInternal {
			expression(known)
		}
	}
	expression(reflect.TypeFor[metav1.Status]())
	expression(reflect.TypeFor[metav1.DeleteOptions]())
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(types)
}

// expression writes a Go type in the way of the data file, and collects the fields of the structs in it.
func expression(t reflect.Type) string {
	if known, ok := special[name(t)]; ok {
		return known
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(unmarshaler) {
		panic("a type with its own way of reading JSON that is not in the table: " + name(t))
	}
	if t.Kind() == reflect.Struct {
		collect(t)
		return name(t)
	}
	structure := ""
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + expression(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			structure = "bytes"
		} else {
			structure = "[]" + expression(t.Elem())
		}
	case reflect.Map:
		structure = "map[string]" + expression(t.Elem())
	case reflect.Interface:
		return "any"
	default:
		structure = t.Kind().String()
	}
	keyed := t.Kind() == reflect.Map && t.Key().PkgPath() != ""
	if t.PkgPath() == "" && !keyed {
		return structure
	}
	return t.String() + "(" + structure + ")"
}

func collect(t reflect.Type) {
	if _, done := types[name(t)]; done {
		return
	}
	fields := map[string]string{}
	types[name(t)] = fields
	collectFields(t, "", fields)
}

// collectFields collects the fields of t and of the structs embedded in it. The decoder names the latter in its errors.
func collectFields(t reflect.Type, embedded string, fields map[string]string) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == "-" || !field.IsExported() {
			continue
		}
		if tag == "" {
			if field.Type.Kind() != reflect.Struct {
				panic("a field without a name: " + name(t) + "." + field.Name)
			}
			collectFields(field.Type, strings.TrimPrefix(embedded+"."+field.Name, "."), fields)
			continue
		}
		text := expression(field.Type)
		for option := range strings.SplitSeq(options, ",") {
			if option == "omitempty" || option == "omitzero" {
				text += " " + option
			}
		}
		if embedded != "" {
			text += " in=" + embedded
		}
		fields[tag] = text
	}
}

// name is the last two elements of the package's path and the name of the type.
func name(t reflect.Type) string {
	elements := strings.Split(t.PkgPath(), "/")
	return strings.Join(append(elements[max(0, len(elements)-2):], t.Name()), ".")
}
