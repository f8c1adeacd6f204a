//! Runs hooks where kaws runs: a line of the shell, a script, or a program of the plugin's.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::{Call, Failure, Ran, Rights, Runtime, environment};
use crate::name::platform;
use crate::plugin::Package;
use crate::plugin::contract::Occasion;
use crate::plugin::program::{Command, Exec, Word};

/// The file that a script comes to stand in, in the private copy of its plugin's folder.
const SCRIPT: &str = "kaws-hook";

/// What a hook runs.
#[derive(Clone, Debug)]
pub enum Runs<'a> {
    /// A line of the shell.
    Line(&'a str),
    /// A script.
    Script(&'a str),
    /// A program of the plugin's.
    Exec(&'a Value),
}

impl Runtime {
    /// Runs a hook of an event, or the program of a step or a check, in the sandbox of all programs.
    ///
    /// # Errors
    /// As [`Runtime::run`].
    pub fn run_after_render(
        &self,
        package: &Package,
        runs: &Runs<'_>,
        occasion: Occasion<'_>,
        timeout: &str,
        request: &[u8],
        rights: Rights,
    ) -> Result<Ran, Box<Failure>> {
        let missing = |why: String| Box::new(Failure::Missing(why));
        let mut manifest = package.manifest.clone();
        timeout.clone_into(&mut manifest.limits.timeout);
        let made = Package::made(manifest, package.node.clone(), package.home.clone());
        let mut own = made.ok_or_else(|| missing("it has no name".to_owned()))?;
        own.files.clone_from(&package.files);
        let command = match runs {
            Runs::Line(line) => Command {
                program: Word::Path("sh".to_owned()),
                arguments: vec!["-c".to_owned(), (*line).to_owned()],
            },
            Runs::Script(text) => {
                let text = if text.starts_with("#!") {
                    (*text).to_owned()
                } else {
                    format!("#!/bin/sh\n{text}")
                };
                own.files.insert(SCRIPT.to_owned(), Cow::Owned(text.into_bytes()));
                Command { program: Word::Own(SCRIPT.to_owned()), arguments: Vec::new() }
            }
            Runs::Exec(exec) => {
                let exec: Exec = serde_json::from_value((*exec).clone()).map_err(|_| {
                    missing(
                        "a program is a file, as ./bin/x, or a list, as [python3, ./main.py]"
                            .to_owned(),
                    )
                })?;
                exec.command(&platform()).map_err(missing)?
            }
        };
        let told: Value = serde_json::from_slice(request).unwrap_or_default();
        let cluster = told.get("cluster").unwrap_or(&Value::Null);
        let plugin = told.pointer("/plugin/name").and_then(Value::as_str).unwrap_or_default();
        let mut environment = environment(cluster, plugin, occasion.word());
        if let Occasion::Event(event) = occasion {
            environment.remove("KAWS_STAGE");
            environment.insert("KAWS_EVENT".to_owned(), event.to_owned());
        }
        environment.extend(self.granted_environment(&rights));
        self.run(&Call { package: &own, command, input: request, environment, rights })
    }

    /// Returns the user's variables that were granted.
    pub(super) fn granted_environment(&self, rights: &Rights) -> BTreeMap<String, String> {
        let seen = |name: &String| Some((name.clone(), self.host.environment.get(name)?.clone()));
        rights.env.iter().filter_map(seen).collect()
    }
}
