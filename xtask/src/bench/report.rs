//! The report: what was measured on which machine.

use std::process::Command;

use super::table::Table;

/// The machine and the tools that figures come from.
pub(crate) struct Machine {
    facts: Vec<(&'static str, String)>,
}

impl Machine {
    /// This machine, as far as its tools report it.
    pub(crate) fn this() -> Self {
        let cores = std::thread::available_parallelism().map_or("unknown".to_owned(), |cores| cores.to_string());
        let processor = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let system = std::fs::read_to_string("/etc/os-release").ok().and_then(|text| {
            let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
            Some(name.trim_matches('"').to_owned())
        });
        let facts = [
            ("cores", Some(cores)),
            ("processor", processor),
            ("system", system),
            ("kernel", output_of("uname", &["-srm"])),
            ("Rust", output_of("rustc", &["--version"])),
            ("Go", output_of("go", &["version"])),
        ];
        Self { facts: facts.into_iter().filter_map(|(name, fact)| Some((name, fact?))).collect() }
    }
}

fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The report as Markdown.
pub(crate) fn markdown(machine: &Machine, how: &str, tables: &[Table], closing: &str) -> String {
    let mut text = format!("# Measurements\n\n{how}\n\n| | |\n| --- | --- |\n");
    for (name, fact) in &machine.facts {
        text += &format!("| {name} | {fact} |\n");
    }
    for table in tables {
        text += &format!("\n{}", table.markdown());
    }
    text + &format!("\n{closing}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_machine_and_ends_with_what_is_missing() {
        let machine = Machine { facts: vec![("cores", "2".to_owned()), ("Rust", "rustc 1.95.0".to_owned())] };
        let text = markdown(&machine, "A quick run.", &[], "1 job measured; left out: latency");
        assert!(text.contains("| cores | 2 |\n| Rust | rustc 1.95.0 |\n"), "{text}");
        assert!(text.ends_with("\n1 job measured; left out: latency\n"), "{text}");
    }

    #[test]
    fn this_machine_knows_its_cores_and_its_compiler() {
        let names: Vec<&str> = Machine::this().facts.iter().map(|(name, _)| *name).collect();
        assert!(names.contains(&"cores") && names.contains(&"Rust"), "{names:?}");
    }
}
