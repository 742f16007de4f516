//! Random acts on a run, compared with a model: with nothing wrong, after a loss of power at any
//! place, and after the death of the owner at a random one.

use crate::common::faults::{Fault, FaultyDisk, plant, scratch};
use crate::common::recover_without_memory;
use crate::common::script::{Act, Driver, Model, check, read};
use forebay_store::{Options, Owner, Reader, recover};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

fn act() -> impl Strategy<Value = Act> {
    let name = || 0u8..4;
    // Small ones live in the catalog, large ones in files.
    let len = || prop_oneof![1u64..1000, 1100u64..4000];
    prop_oneof![
        3 => any::<u8>().prop_map(|n| Act::Row(n.into())),
        4 => (name(), len(), 0u64..100).prop_map(|(n, len, seed)| Act::Put(n, len, seed)),
        1 => name().prop_map(Act::Delete),
        1 => (name(), name()).prop_map(|(a, b)| Act::Rename(a, b)),
        1 => (name(), name()).prop_map(|(a, b)| Act::Copy(a, b)),
        3 => (0i64..40, len(), 0u64..100).prop_map(|(step, len, seed)| Act::Step(step, len, seed)),
        1 => (50i64..60).prop_map(Act::Discard),
        1 => Just(Act::Flush),
    ]
}

/// Acts whose steps a rank may take: their numbers grow, and one is met again at times.
fn acts(number: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Act>> {
    let growing = |acts: Vec<Act>| {
        let mut last = 0;
        let mut grow = |by: i64| {
            last += by % 3;
            last
        };
        let of = |act| match act {
            Act::Step(by, len, seed) => Act::Step(grow(by), len, seed),
            Act::Discard(step) => Act::Discard(1000 + step),
            other => other,
        };
        acts.into_iter().map(of).collect()
    };
    proptest::collection::vec(act(), number).prop_map(growing)
}

fn options(disk: &Arc<FaultyDisk>) -> Options {
    Options { disk: disk.clone(), ..Options::default() }
}

/// Carries out all acts. What is refused (a step that exists) the model refuses too.
fn carry_out(run: &Path, disk: &FaultyDisk, options: Options, acts: &[Act]) {
    let owner = Owner::open(run, options).unwrap();
    let mut driver = Driver::open(&owner).unwrap();
    driver.run(acts, &|durable, begun| disk.acknowledge(durable, begun));
    driver.close();
    disk.acknowledge(acts.len(), acts.len());
    owner.close().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_acts_and_a_loss_of_power_at_any_place_agree_with_the_model(
        acts in acts(1..25), some in 1usize..7
    ) {
        let dir = scratch();
        let run = dir.path().join("r.fb");
        let disk = FaultyDisk::new(dir.path(), Fault::Power, 0);
        carry_out(&run, &disk, options(&disk), &acts);
        prop_assert_eq!(read(&run), Model::after(&acts));
        let made = |l: &&crate::common::faults::Left| l.tree.contains_key(Path::new("r.fb/catalog.sqlite"));
        for l in disk.left().iter().filter(made).skip(some).step_by(7) {
            let dir = scratch();
            let run = dir.path().join("r.fb");
            plant(&l.tree, dir.path());
            recover_without_memory(&run).unwrap();
            check(&run, &acts, l.acknowledged, l.begun, &format!("place {}, {}", l.place, l.what));
        }
    }

    #[test]
    fn any_acts_and_the_death_of_the_owner_agree_with_the_model(seed: u64, at in 20usize..200) {
        let dir = scratch();
        let run = dir.path().join("r.fb");
        let _ = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "model::a_writer_of_random_acts_that_is_killed", "--test-threads=1"])
            .envs([(RUN, run.to_str().unwrap()), (SEED, &seed.to_string()), (PLACE, &at.to_string())])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        // A death while the run is being made is what other tests are about.
        let Ok(progress) = std::fs::read_to_string(dir.path().join("progress")) else {
            let _ = recover(&run);
            return Ok(());
        };
        let begun: usize = progress.lines().last().map_or(0, |n| n.parse().unwrap());
        recover(&run).unwrap();
        // The last act may be half in the rings; those before are whole.
        let acts = acts_of(seed);
        let told = Reader::open(&run).unwrap().sql("SELECT step, text FROM fb_messages", &[]).unwrap().rows;
        let what = format!("seed {seed}, place {at}, told {told:?}, {begun} of {acts:?}");
        check(&run, &acts, begun.saturating_sub(1), begun, &what);
    }
}

const RUN: &str = "FOREBAY_TEST_MODEL_RUN";
const SEED: &str = "FOREBAY_TEST_MODEL_SEED";
const PLACE: &str = "FOREBAY_TEST_MODEL_PLACE";

/// The acts of a seed, the same in every process.
fn acts_of(seed: u64) -> Vec<Act> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    acts(10..40).new_tree(&mut runner).unwrap().current()
}

/// The child. As a test of its own it does nothing.
#[test]
fn a_writer_of_random_acts_that_is_killed() {
    let vars = [RUN, SEED, PLACE].map(std::env::var);
    let [Ok(run), Ok(seed), Ok(place)] = vars else { return };
    let run = PathBuf::from(run);
    let progress = std::fs::File::create(run.parent().unwrap().join("progress")).unwrap();
    let disk = FaultyDisk::new(run.parent().unwrap(), Fault::Kill, place.parse().unwrap());
    let owner = Owner::open(&run, options(&disk)).unwrap();
    let mut driver = Driver::open(&owner).unwrap();
    driver.run(&acts_of(seed.parse().unwrap()), &|_, begun| {
        use std::io::Write;
        writeln!(&progress, "{begun}").unwrap();
    });
    driver.close();
    owner.close().unwrap();
}
