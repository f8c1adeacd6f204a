//! `kaws plugin test --record`: what cases need from outside is asked once, and stands in the kaws.lock beside each case
//! from then on.

use std::collections::BTreeSet;

use crate::cli::arguments::TestArguments;
use crate::cli::commands::lock::lookups::{Asked, answers};
use crate::cli::commands::lock::scripts::fetched;
use crate::cli::commands::lock::write;
use crate::cli::commands::{Exit, asked, tell};
use crate::cli::deploying::runtime;
use crate::cli::report::{say, say_failure};
use crate::cli::{Common, Output};
use crate::finding::{Findings, plain};
use crate::kit::{self, Prepared, Test};
use crate::load;
use crate::lock::LockFile;
use crate::pipeline::{Setup, initialise, lookups, scripts};
use crate::plugin::{How, Question};

/// Records what no kaws.lock has yet; the rest stays as it is.
pub(super) fn record(common: &Common, arguments: &TestArguments, test: &Test) -> Result<(), Exit> {
    let session = Session { common, arguments, test };
    let names = kit::names(test).map_err(|error| failed(&error))?;
    runtime().block_on(async {
        let mut granted = BTreeSet::new();
        for case in &names {
            if common.output == Output::Text {
                say(&plain(case));
            }
            session.lookups(case, &mut granted).await?;
            session.scripts(case).await?;
        }
        Ok(())
    })
}

fn failed(error: &kit::Error) -> Exit {
    say_failure(error);
    Exit::Files
}

struct Session<'a> {
    common: &'a Common,
    arguments: &'a TestArguments,
    test: &'a Test,
}

impl Session<'_> {
    fn prepared(&self, case: &str) -> Result<Option<Prepared>, Exit> {
        kit::prepared(self.test, case).map_err(|error| failed(&error))
    }

    fn asked<'s>(&'s self, prepared: &'s Prepared) -> Asked<'s> {
        let Prepared { file, setup } = prepared;
        Asked { common: self.common, cloud: &self.arguments.cloud, file, setup }
    }

    /// Asks what is looked up.
    async fn lookups(&self, case: &str, granted: &mut BTreeSet<String>) -> Result<(), Exit> {
        let Some(prepared) = self.prepared(case)? else { return Ok(()) };
        let setup = &prepared.setup;
        let mut findings = Findings::new();
        let questions = lookups(setup).collect(&mut findings);
        let open =
            |question: &&Question| setup.lock.answer(&question.name, &question.from).is_none();
        let open: Vec<&Question> = questions.iter().filter(open).collect();
        self.grant(setup, &open, granted)?;
        let answered = answers(&self.asked(&prepared), &open, &mut findings).await?;
        let mut new = lock(setup);
        new.lookups.retain(|name, _| questions.iter().any(|question| question.name == *name));
        new.lookups.extend(answered);
        self.keep(&prepared, &new, &findings)
    }

    /// Fetches hooks' scripts; a case that is refused before there are any has none.
    async fn scripts(&self, case: &str) -> Result<(), Exit> {
        let Some(prepared) = self.prepared(case)? else { return Ok(()) };
        let setup = &prepared.setup;
        let mut findings = Findings::new();
        let model = initialise(setup);
        if model.findings.any_fatal() {
            return Ok(());
        }
        let needs = scripts(&model.value);
        let open: Vec<_> = needs
            .iter()
            .filter(|need| {
                setup.lock.script(&need.name, &need.from, need.sha256.as_deref()).is_err()
            })
            .collect();
        let fetched = fetched(&self.asked(&prepared), &open, &mut findings).await?;
        let mut new = lock(setup);
        new.scripts.retain(|name, _| needs.iter().any(|need| need.name == *name));
        new.scripts.extend(fetched);
        self.keep(&prepared, &new, &findings)
    }

    /// Lets programs that are asked reach what their manifests name, once somebody has agreed.
    fn grant(
        &self,
        setup: &Setup,
        open: &[&Question],
        granted: &mut BTreeSet<String>,
    ) -> Result<(), Exit> {
        let programs = open.iter().filter(|question| matches!(question.how, How::Exec(..)));
        for name in programs.filter_map(|question| question.name.split('/').next()) {
            let me = setup.plugins.iter().find(|instance| instance.name.as_str() == name);
            let rights = me.map(|me| me.package.manifest.capabilities.rights()).unwrap_or_default();
            if rights.is_empty() || self.arguments.grant || !granted.insert(name.to_owned()) {
                continue;
            }
            if self.common.output == Output::Text {
                let list: String = rights.iter().map(|right| format!("\n  {right}")).collect();
                say(&plain(&format!("{name} asks for:{list}")));
            }
            let dir = self.arguments.dir.display();
            asked("Grant it?", &format!("kaws plugin test {dir} --record --grant"))?;
        }
        Ok(())
    }

    /// Writes what is new, also where something else was not answered.
    fn keep(&self, prepared: &Prepared, new: &LockFile, findings: &Findings) -> Result<(), Exit> {
        let old = prepared.setup.lock.file();
        if new.lookups != old.lookups || new.scripts != old.scripts {
            write(&load::folder_of(&prepared.file).join("kaws.lock"), new)?;
        }
        if findings.any_fatal() {
            tell(self.common, findings);
            return Err(Exit::Findings);
        }
        Ok(())
    }
}

fn lock(setup: &Setup) -> LockFile {
    LockFile { kaws: env!("CARGO_PKG_VERSION").to_owned(), ..setup.lock.file().clone() }
}
