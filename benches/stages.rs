//! How long the stages take, in one process: reading, initialise and render of the example with three
//! zones. Whole processes are measured by `run.py`.

use criterion::{Criterion, criterion_group, criterion_main};
use kaws::load::{Options, load};
use kaws::{builtin, pipeline};

fn stages(criterion: &mut Criterion) {
    let options =
        Options { example: Some("ha".to_owned()), ..Options::of("examples/ha/cluster.yaml") };
    let setup = || {
        load(&options, &builtin::natives()).ok().and_then(|o| o.value).expect("the example is fine")
    };
    criterion.bench_function("load", |b| b.iter(setup));
    let read = setup();
    criterion.bench_function("initialise", |b| b.iter(|| pipeline::initialise(&read)));
    let intent = pipeline::initialise(&read).value;
    let again = || pipeline::render(&read, intent.clone());
    criterion.bench_function("render", |b| b.iter(again));
}

criterion_group!(benches, stages);
criterion_main!(benches);
