//! The ingress manager as a program.

mod demo;

use std::env;
use std::process::ExitCode;

use ingress_manager::program;
use steersman_program::Invocation;

fn main() -> ExitCode {
    // Before any thread: the setting is for the whole process.
    steersman::cache::release_freed_memory();
    let program = program();
    let invocation = program.parse();
    let is_set = |variable| env::var_os(variable).is_some_and(|value| !value.is_empty());
    match &invocation {
        Invocation::Run(flags)
            if !flags.cluster.are_set() && !is_set("KUBECONFIG") && !is_set("KUBERNETES_SERVICE_HOST") =>
        {
            demo::main(&flags.own.domain)
        }
        _ => program.execute(invocation),
    }
}
