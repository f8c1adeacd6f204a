//! `kaws plan`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::json;

use super::{Exit, only_file, rendered};
use crate::causes::owners;
use crate::cli::deploying::{Drifting, Purpose, Session, fail, plan_against, plan_text, runtime};
use crate::cli::report::{say, say_error};
use crate::cli::{Common, Output, PlanArguments};
use crate::deploy::plan::{Deployed, Plan, StackAction, Wanted, plan};
use crate::deploy::{Source, Tree};
use crate::emit;
use crate::port::{Stack, Status};

/// Shows what would be done.
pub(super) fn run(common: &Common, arguments: &PlanArguments) -> Exit {
    let made = match &arguments.base {
        Some(base) => against_tree(common, base),
        None => runtime().block_on(against_cloud(common, arguments)),
    };
    let (plan, tree) = match made {
        Ok(made) => made,
        Err(exit) => return exit,
    };
    if let Some(path) = &arguments.save
        && let Err(exit) = save(path, &plan)
    {
        return exit;
    }
    match common.output {
        Output::Json => say(&to_json(&plan).to_string()),
        Output::Text => {
            match &arguments.base {
                Some(base) => {
                    let base = format!("compared with {}", base.display());
                    say(&plan_against(&plan, &tree, &base));
                }
                None => say(&plan_text(&plan, &tree)),
            }
            if plan.is_empty() {
                say(nothing(&plan));
            } else if let Some(path) = &arguments.save {
                saved(common, arguments, &plan, path);
            }
        }
    }
    if arguments.exit_code && !plan.is_empty() { Exit::Differences } else { Exit::Done }
}

/// What is said where there is nothing to do.
fn nothing(plan: &Plan) -> &'static str {
    if plan.stacks.iter().any(|s| s.action == StackAction::Leave) {
        "No changes, unless --remove names what is no longer rendered."
    } else {
        "No changes."
    }
}

fn saved(common: &Common, arguments: &PlanArguments, plan: &Plan, path: &Path) {
    let short: String = plan.digest.chars().take(8).collect();
    let mut up = format!("up --plan {}", path.display());
    for stack in &arguments.remove {
        up.push_str(&format!(" --remove {stack}"));
    }
    if arguments.revert_drift {
        up.push_str(" --revert-drift");
    }
    let file = common.file.first().map_or(Path::new("cluster.yaml"), |f| f.as_path());
    say(&format!("Saved in {} (digest {short}). To do exactly this:", path.display()));
    say(&format!("  {}", arguments.cloud.same(&up, file)));
}

/// Returns the plan as JSON, with its counts.
pub(super) fn to_json(plan: &Plan) -> serde_json::Value {
    json!({"plan": plan, "counts": plan.counts()})
}

#[expect(clippy::disallowed_methods, reason = "the user asked for the file")]
fn save(path: &Path, plan: &Plan) -> Result<(), Exit> {
    let text = serde_json::to_string_pretty(&to_json(plan)).expect("it has text keys");
    std::fs::write(path, text + "\n").map_err(|error| {
        say_error(&format!("cannot write {}: {error}", path.display()));
        Exit::Files
    })
}

async fn against_cloud(common: &Common, arguments: &PlanArguments) -> Result<(Plan, Tree), Exit> {
    let file = only_file(common)?;
    let session =
        Session::open(common, file, &arguments.cloud, BTreeMap::new(), Purpose::Deploy).await?;
    let remove: BTreeSet<String> = arguments.remove.iter().cloned().collect();
    let drifting = match (arguments.revert_drift, arguments.drift) {
        (true, _) => Drifting::Reverted,
        (false, true) => Drifting::Shown,
        (false, false) => Drifting::Unseen,
    };
    let (plan, _) = session.plan(&remove, drifting).await?;
    Ok((plan, session.tree))
}

/// What a tree would change if another were deployed: for pull requests, without an account.
fn against_tree(common: &Common, base: &Path) -> Result<(Plan, Tree), Exit> {
    let run = rendered(common)?;
    let artifacts = &run.rendered.artifacts;
    let files =
        artifacts.iter().map(|(p, a)| (p.clone(), std::sync::Arc::clone(&a.bytes))).collect();
    let tree = Tree::read(&run.manifest, files).map_err(|error| fail(&error.into()))?;
    let (manifest, mut files) = emit::read(base).map_err(|error| super::unwritable(&error))?;
    let old = Tree::read(&manifest, files.clone()).map_err(|error| fail(&error.into()))?;
    files.insert(emit::MANIFEST.to_owned(), manifest.into_bytes().into());
    let mut there = as_deployed(&old);
    // Which secrets are set nobody knows without an account.
    there.secrets = tree.secrets.iter().cloned().collect();
    let mut record = crate::deploy::Record { tree: old.digest.clone(), ..Default::default() };
    record.kaws = env!("CARGO_PKG_VERSION").to_owned();
    there.last = Some(crate::deploy::Deployment { record, files });
    let wanted = Wanted {
        tree: &tree,
        owners: &owners(&run),
        causes: Vec::new(),
        locked: lock_values(&tree),
        remove: &BTreeSet::new(),
        revert_drift: false,
    };
    let mut made = plan("none", wanted, &there).map_err(|error| fail(&error))?;
    made.base = None;
    Ok((made, tree))
}

/// Values of parameters are not known without an account: equal names stand for equal values.
fn lock_values(tree: &Tree) -> BTreeMap<String, String> {
    let parameters = tree.stacks.values().flat_map(|s| s.parameters.values());
    parameters
        .filter_map(|p| match &p.source {
            Source::Lock(name) => {
                Some((name.clone(), p.locked.clone().unwrap_or_else(|| format!("${{{name}}}"))))
            }
            Source::Output(..) => None,
        })
        .collect()
}

/// A tree, as if it were deployed: outputs are their names.
fn as_deployed(tree: &Tree) -> Deployed {
    let locked = lock_values(tree);
    let mut stacks = BTreeMap::new();
    for (short, stack) in &tree.stacks {
        let outputs = stack.template.outputs.keys();
        let value = |source: &Source| match source {
            Source::Output(producer, output) => format!("${{{producer}.{output}}}"),
            Source::Lock(name) => locked.get(name).cloned().unwrap_or_default(),
        };
        let there = Stack {
            name: stack.name.clone(),
            status: Status::new("CREATE_COMPLETE"),
            parameters: stack
                .parameters
                .iter()
                .map(|(n, p)| (n.clone(), value(&p.source)))
                .collect(),
            outputs: outputs.map(|o| (o.clone(), format!("${{{short}.{o}}}"))).collect(),
            tags: stack.tags.clone(),
            protected: stack.protected,
            ..Stack::default()
        };
        stacks.insert(short.clone(), (there, (*stack.template).clone()));
    }
    let bundles = tree
        .groups()
        .into_iter()
        .filter_map(|g| tree.bundle_hash(&g).map(|hash| format!("nodes/{g}/{hash}.tar.gz")));
    Deployed { bundles: bundles.collect(), stacks, ..Deployed::default() }
}
