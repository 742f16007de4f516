//! Steering from outside: every verb, seen to act at its step, in one rank and in several.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{sandbox, until};
use forebay::{Mode, OpenOptions, ParameterOptions, Run};
use forebay_agent::Steered;
use forebay_types::watch::{Act, State};
use serde_json::json;

const LAST: i64 = 1_000_000;

fn options(rank: u32, size: u32) -> OpenOptions {
    OpenOptions { buffer: 4 << 20, rank: Some(rank), size: Some(size), ..Default::default() }
}

fn steer(run: &std::path::Path, act: Act) -> Steered {
    forebay_agent::steer(run, "tester", act, Duration::from_secs(20), &|_| ()).unwrap()
}

/// The parameter, as every rank declares it.
fn amplitude(run: &Run) -> forebay::Parameter {
    let limits =
        ParameterOptions { min: Some(0.0), max: Some(2.0), units: "V/m".into(), ..Default::default() };
    run.parameter("e0", json!(0.5), limits).unwrap()
}

/// A program: it computes for ever and notes at which step the parameter was new.
fn program(run: &Run, e0: &forebay::Parameter, changed: &Mutex<Option<i64>>, now: &AtomicI64) -> bool {
    let mut steps = run.steps(LAST, 0).unwrap();
    while let Some(step) = steps.next().unwrap() {
        now.store(step, Ordering::Release);
        if e0.number() == 1.5 {
            changed.lock().unwrap().get_or_insert(step);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    now.load(Ordering::Acquire) < LAST - 1
}

#[test]
fn every_verb_acts_on_a_single_program() {
    sandbox("every_verb_acts_on_a_single_program", |s| {
        let run = forebay::open(&s.run("steered"), Mode::Append, options(0, 1)).unwrap();
        let saved = Arc::new(AtomicI64::new(-1));
        let seen = saved.clone();
        run.saves(move |step| {
            seen.store(step, Ordering::Release);
            Ok(())
        })
        .unwrap();
        run.command("fail", |_| Err(forebay::Error::bad("no fuel"))).unwrap();
        let (changed, now) = (Arc::new(Mutex::new(None)), Arc::new(AtomicI64::new(-1)));
        let theirs = (run.clone(), changed.clone(), now.clone());
        let program =
            std::thread::spawn(move || program(&theirs.0, &amplitude(&theirs.0), &theirs.1, &theirs.2));
        until("the loop", || now.load(Ordering::Acquire) > 3);

        let held = steer(run.path(), Act::Stop);
        assert!(held.applied && held.state == State::Held, "{held:?}");
        let at = held.step.unwrap();
        assert_eq!(now.load(Ordering::Acquire), at - 1, "the step it holds before is not begun");
        let set = steer(run.path(), Act::Set { name: "e0".into(), value: json!(1.5) });
        assert!(set.applied && set.step == Some(at), "{set:?}");
        let wrong = Act::Set { name: "e0".into(), value: json!(3.0) };
        assert!(forebay_agent::steer(run.path(), "tester", wrong, Duration::from_secs(5), &|_| ()).is_err());
        assert!(steer(run.path(), Act::Save).applied);
        assert_eq!(saved.load(Ordering::Acquire), at);
        assert!(steer(run.path(), Act::Step { n: 3 }).applied);
        until("three steps", || now.load(Ordering::Acquire) == at + 2);
        assert_eq!(*changed.lock().unwrap(), Some(at), "the value is new from that step on");
        let fail = Act::Command { name: "fail".into() };
        let failed =
            forebay_agent::steer(run.path(), "tester", fail, Duration::from_secs(5), &|_| ()).unwrap_err();
        assert!(failed.text().contains("no fuel"), "{failed}");
        assert!(steer(run.path(), Act::Run).applied);
        until("more steps", || now.load(Ordering::Acquire) > at + 10);
        assert!(steer(run.path(), Act::Quit).applied);
        assert!(program.join().unwrap(), "the loop ended before its end");
        run.close().unwrap();
        let acts = forebay_store::Reader::open(run.path()).unwrap().acts().unwrap();
        assert!(acts.len() >= 7, "every act is in the log: {}", acts.len());
    });
}

#[test]
fn ranks_act_at_the_same_step() {
    sandbox("ranks_act_at_the_same_step", |s| {
        if let Ok(rank) = s.role.parse::<u32>() {
            let run = forebay::open(&s.run("together"), Mode::Append, options(rank, 3)).unwrap();
            let (changed, now) = (Mutex::new(None), AtomicI64::new(-1));
            // The owner knows the parameter when it has answered.
            let e0 = amplitude(&run);
            run.flush().unwrap();
            s.tell(&format!("up{rank}"));
            assert!(program(&run, &e0, &changed, &now));
            let text = format!("{} {}", changed.lock().unwrap().unwrap_or(-1), now.load(Ordering::Acquire));
            std::fs::write(s.dir.join(format!("rank{rank}")), text).unwrap();
            return run.close().unwrap();
        }
        let mut ranks: Vec<_> = (0..3).map(|r| s.start(&r.to_string())).collect();
        (0..3).for_each(|r| s.hear(&format!("up{r}")));
        let dir = forebay::run_dir(&s.run("together")).unwrap();
        let set = steer(&dir, Act::Set { name: "e0".into(), value: json!(1.5) });
        assert!(set.applied, "{set:?}");
        assert!(steer(&dir, Act::Stop).applied);
        assert!(steer(&dir, Act::Step { n: 2 }).applied);
        assert!(steer(&dir, Act::Quit).applied);
        for rank in &mut ranks {
            assert!(rank.wait().success());
        }
        let said: Vec<String> =
            (0..3).map(|r| std::fs::read_to_string(s.dir.join(format!("rank{r}"))).unwrap()).collect();
        assert!(said.iter().all(|t| t == &said[0]), "all ranks changed and ended alike: {said:?}");
        assert!(said[0].starts_with(&format!("{} ", set.step.unwrap())), "{said:?} {set:?}");
    });
}
