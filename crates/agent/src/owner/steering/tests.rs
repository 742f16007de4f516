//! What each verb does, told as short stories of one or two ranks.

use super::*;
use forebay_types::Code;
use forebay_types::watch::{Act, Declare, Parameter, Phase, State};
use serde_json::json;
use std::collections::BTreeMap;

/// The ranks as the machine sees them: each goes on until its gate and carries out what it is sent.
struct Run {
    steering: Steering,
    steps: BTreeMap<u32, Option<i64>>,
    gates: BTreeMap<u32, Option<i64>>,
    mail: BTreeMap<u32, Vec<(u64, i64, Act)>>,
    said: Vec<Action>,
    last_id: u64,
    stride: i64,
}

impl Run {
    fn of(size: u32) -> Run {
        let mut run = Run {
            steering: Steering::new(size),
            steps: BTreeMap::new(),
            gates: BTreeMap::new(),
            mail: BTreeMap::new(),
            said: Vec::new(),
            last_id: 0,
            stride: 1,
        };
        for rank in 0..size {
            run.steps.insert(rank, None);
            run.with(|s, out| s.join(rank, size, out));
        }
        run
    }

    fn with<T>(&mut self, f: impl FnOnce(&mut Steering, &mut Vec<Action>) -> T) -> T {
        let mut out = Vec::new();
        let result = f(&mut self.steering, &mut out);
        self.carry_out(out);
        result
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match &action {
                Action::Gate { rank, step } => {
                    self.gates.insert(*rank, *step);
                }
                Action::Post { rank, id, step, act } => {
                    self.mail.entry(*rank).or_default().push((*id, *step, act.clone()));
                }
                Action::Look => self.look(),
                _ => {}
            }
            self.said.push(action);
        }
    }

    fn look(&mut self) {
        let seen: Vec<Seen> = self.steps.iter().map(|(r, s)| Seen { rank: *r, step: *s }).collect();
        self.with(|s, out| s.looked(&seen, out));
    }

    fn declare(&mut self, rank: u32, what: &Declare) {
        self.with(|s, out| s.declare(rank, what, out));
    }

    /// Somebody wants something, a moment after the steps were read.
    fn act(&mut self, act: Act) -> forebay_types::Result<u64> {
        self.look();
        self.last_id += 1;
        let id = self.last_id;
        self.with(|s, out| s.act(id, "tran", 1.0, act, out)).map(|()| id)
    }

    /// The rank goes to the head of `step` if its gates let it; then does what waits for it there.
    fn go(&mut self, rank: u32, step: i64) -> i64 {
        let mut at = self.steps[&rank].unwrap_or_else(|| {
            self.steps.insert(rank, Some(step));
            self.answer(rank, step);
            step
        });
        while at < step && self.gates[&rank].is_none_or(|g| at < g) {
            at += self.stride;
            self.steps.insert(rank, Some(at));
            self.answer(rank, at);
        }
        at
    }

    fn answer(&mut self, rank: u32, at: i64) {
        let mail = std::mem::take(self.mail.entry(rank).or_default());
        let (now, later): (Vec<_>, Vec<_>) = mail.into_iter().partition(|(_, n, _)| *n <= at);
        self.mail.insert(rank, later);
        for (id, _, _) in now {
            self.with(|s, out| s.applied(rank, id, at, None, "", out));
        }
    }

    fn state(&mut self) -> State {
        self.look();
        self.steering.state()
    }

    fn acks(&self) -> Vec<(u64, Phase, Option<i64>)> {
        self.said
            .iter()
            .filter_map(|a| match a {
                Action::Ack(a) => Some((a.id, a.phase, a.step)),
                _ => None,
            })
            .collect()
    }
}

#[test]
fn end_is_one_act_of_all_ranks_and_the_last_one() {
    let mut run = Run::of(2);
    let end = |why: &str| Act::End { why: why.into() };
    assert_eq!(run.act(end("")).unwrap_err().code(), Code::BadArgument);
    assert!(!run.steering.ending());
    run.act(end("SIGTERM")).unwrap();
    assert!(run.steering.ending());
    assert_eq!(run.steering.state(), State::Quitting);
    let sent =
        |rank: u32| run.mail[&rank].iter().map(|(_, step, act)| (*step, act.clone())).collect::<Vec<_>>();
    assert_eq!(sent(0), sent(1));
    assert_eq!(sent(0)[0].1, end("SIGTERM"));
    assert_eq!(run.act(Act::Save).unwrap_err().code(), Code::Closed);
}

#[test]
fn stop_holds_all_ranks_at_one_step_ahead_of_the_foremost() {
    let mut run = Run::of(2);
    assert_eq!(run.state(), State::Starting);
    run.go(0, 5);
    run.go(1, 3);
    assert_eq!(run.state(), State::Running);
    let id = run.act(Act::Stop).unwrap();
    assert_eq!(run.state(), State::Holding);
    assert_eq!(run.go(0, 20), 6);
    assert_eq!(run.state(), State::Holding);
    assert_eq!(run.go(1, 20), 6);
    assert_eq!(run.state(), State::Held);
    assert_eq!(run.steering.step(), Some(6));
    assert_eq!(run.acks(), [(id, Phase::Queued, None), (id, Phase::Applied, Some(6))]);
    run.act(Act::Run).unwrap();
    run.answer(0, 6);
    run.answer(1, 6);
    assert_eq!(run.state(), State::Running);
    assert_eq!((run.go(0, 20), run.go(1, 20)), (20, 20));
}

#[test]
fn step_goes_so_far_and_holds_again() {
    let mut run = Run::of(1);
    run.go(0, 2);
    run.act(Act::Stop).unwrap();
    run.go(0, 9);
    run.act(Act::Step { n: 3 }).unwrap();
    assert_eq!(run.state(), State::Stepping);
    run.answer(0, 3);
    assert_eq!(run.go(0, 99), 6);
    assert_eq!(run.state(), State::Held);
    run.act(Act::Step { n: 1 }).unwrap();
    run.answer(0, 6);
    assert_eq!(run.go(0, 99), 7);
}

#[test]
fn a_held_run_takes_acts_at_the_step_where_it_is() {
    let mut run = Run::of(1);
    run.declare(0, &Declare::Command { name: "dump".into() });
    run.go(0, 4);
    run.act(Act::Stop).unwrap();
    run.go(0, 9);
    let id = run.act(Act::Command { name: "dump".into() }).unwrap();
    run.answer(0, 5);
    assert!(run.acks().contains(&(id, Phase::Applied, Some(5))));
    assert_eq!(run.state(), State::Held);
}

#[test]
fn one_rank_alone_needs_no_look_and_is_held_at_its_next_head_however_old_its_step_is_here() {
    let mut run = Run::of(1);
    run.go(0, 2);
    run.look();
    run.steps.insert(0, Some(40));
    run.said.clear();
    run.with(|s, out| s.act(1, "tran", 1.0, Act::Step { n: 3 }, out)).unwrap();
    assert!(!run.said.contains(&Action::Look), "{:?}", run.said);
    assert!(run.gates[&0].is_some_and(|gate| gate <= 41));
    run.steps.insert(0, Some(41));
    run.answer(0, 41);
    assert_eq!(run.acks(), [(1, Phase::Queued, None), (1, Phase::Applied, Some(41))]);
    assert_eq!(run.gates[&0], Some(44), "the steps count from where the act took place");
    assert_eq!(run.go(0, 99), 44);
    assert_eq!(run.state(), State::Held);
}

#[test]
fn a_stop_before_the_loop_holds_its_first_step_wherever_that_is() {
    let mut run = Run::of(1);
    let id = run.act(Act::Stop).unwrap();
    assert_eq!(run.go(0, 100), 100);
    assert_eq!(run.go(0, 200), 100);
    assert!(run.acks().contains(&(id, Phase::Applied, Some(100))));
    assert_eq!(run.state(), State::Held);
    run.act(Act::Step { n: 2 }).unwrap();
    run.answer(0, 100);
    assert_eq!(run.go(0, 200), 102);
}

#[test]
fn a_step_before_the_loop_counts_from_its_first_step() {
    let mut run = Run::of(2);
    run.act(Act::Step { n: 3 }).unwrap();
    run.go(0, 100);
    run.go(1, 100);
    assert_eq!((run.go(0, 200), run.go(1, 200)), (103, 103));
}

#[test]
fn a_parameter_changes_for_the_viewers_only_when_all_ranks_have_it() {
    let mut run = Run::of(2);
    let p = Parameter {
        name: "e0".into(),
        value: json!(0.0),
        min: Some(-1.0),
        max: Some(1.0),
        units: "V/m".into(),
        help: String::new(),
        signed: false,
    };
    run.declare(0, &Declare::Parameter(p));
    run.go(0, 1);
    run.go(1, 1);
    let refused = run.act(Act::Set { name: "e0".into(), value: json!(2.0) }).unwrap_err();
    assert_eq!(refused.code(), Code::BadArgument);
    assert_eq!(run.act(Act::Set { name: "e1".into(), value: json!(0) }).unwrap_err().code(), Code::NotFound);
    run.act(Act::Set { name: "e0".into(), value: json!(0.5) }).unwrap();
    run.go(0, 3);
    assert_eq!(run.steering.parameters().next().unwrap().value, json!(0.0));
    run.go(1, 3);
    assert_eq!(run.steering.parameters().next().unwrap().value, json!(0.5));
    let whole = Act::Set { name: "e0".into(), value: json!(1) };
    assert_eq!(run.steering.normal(&whole), Act::Set { name: "e0".into(), value: json!(1.0) });
    let log = run.said.iter().find_map(|a| match a {
        Action::Log(l) => Some(l.clone()),
        _ => None,
    });
    let log = log.unwrap();
    assert_eq!((log.step, log.old, log.who.as_str()), (Some(2), Some(json!(0.0)), "tran"));
}

#[test]
fn an_act_that_one_rank_refuses_is_reported_with_its_words() {
    let mut run = Run::of(1);
    run.go(0, 1);
    let id = run.act(Act::Save).unwrap();
    run.steps.insert(0, Some(2));
    assert_eq!(run.state(), State::Saving);
    run.with(|s, out| s.applied(0, id, 2, Some("disk full"), "", out));
    let told = run
        .said
        .iter()
        .any(|a| matches!(a, Action::Ack(a) if a.phase == Phase::Refused && a.text == "rank 0: disk full"));
    assert!(told);
    assert_eq!(run.state(), State::Running);
}

#[test]
fn behind_the_loop_every_act_is_answered_at_once_and_in_the_next_loop_they_are_taken_again() {
    let mut run = Run::of(1);
    run.go(0, 5);
    let late = run.act(Act::Stop).unwrap();
    run.declare(0, &Declare::Over { step: 6 });
    assert!(run.acks().contains(&(late, Phase::Refused, None)), "what waited is answered: {:?}", run.acks());
    assert_eq!((run.steering.state(), run.steering.step()), (State::Over, Some(6)));
    for act in [Act::Run, Act::Stop, Act::Step { n: 1 }, Act::Save, Act::Quit] {
        let refused = run.act(act).unwrap_err();
        assert_eq!(refused.code(), Code::Closed);
        assert!(refused.text().contains("the loop is over"), "{refused}");
    }
    run.steps.insert(0, None);
    run.mail.clear();
    run.declare(0, &Declare::Progress { start: 0, end: Some(9), stride: 1, number: 1, every: 0 });
    let id = run.act(Act::Stop).unwrap();
    run.go(0, 0);
    assert_eq!(run.state(), State::Held);
    assert!(run.acks().contains(&(id, Phase::Applied, Some(0))));
}

#[test]
fn with_a_stride_step_counts_heads_and_every_act_takes_place_at_one() {
    let mut run = Run::of(2);
    run.stride = 10;
    for rank in 0..2 {
        run.declare(rank, &Declare::Progress { start: 0, end: Some(1000), stride: 10, number: 1, every: 0 });
        run.go(rank, 40);
    }
    run.act(Act::Step { n: 3 }).unwrap();
    for rank in 0..2 {
        assert_eq!(run.go(rank, 50), 50);
        assert_eq!(run.go(rank, 1000), 80, "three heads behind the one of the act");
    }
    assert_eq!(run.state(), State::Held);
}

#[test]
fn ranks_whose_heads_never_meet_are_told_and_the_next_loop_of_one_is_compared_with_that_of_the_others() {
    let mut run = Run::of(2);
    let mut differs = |rank, start, stride, number| {
        run.said.clear();
        run.declare(rank, &Declare::Progress { start, end: Some(100), stride, number, every: 0 });
        run.said.iter().any(|a| matches!(a, Action::Differs { rank: r, .. } if *r == rank))
    };
    assert!(!differs(0, 0, 1, 1) && !differs(0, 0, 10, 2), "the other rank is in no loop");
    assert!(!differs(1, 0, 1, 1), "a loop that rank 0 has left");
    assert!(differs(1, 5, 10, 2) && differs(1, 0, 5, 2));
    assert!(!differs(1, 20, 10, 2));
}

#[test]
fn ranks_that_keep_other_states_or_end_elsewhere_are_told_at_the_beginning_of_their_loop() {
    let mut run = Run::of(2);
    let mut said = |rank, end, every, number| {
        run.said.clear();
        run.declare(rank, &Declare::Progress { start: 0, end, stride: 1, number, every });
        run.said.iter().find_map(|a| match a {
            Action::Differs { rank: r, text } if *r == rank => Some(text.clone()),
            _ => None,
        })
    };
    assert_eq!(said(0, Some(100), 10, 1), None);
    let text = said(1, Some(100), 7, 1).unwrap();
    assert!(text.contains("rank 1 keeps of the states of its loop those that 7 divides"), "{text}");
    assert!(text.contains("rank 0 those that 10 divides"), "{text}");
    assert!(said(1, Some(100), 0, 1).unwrap().contains("none by itself"));
    assert!(said(1, Some(50), 10, 1).unwrap().contains("rank 1 loops to 50, and rank 0 to 100"));
    assert_eq!(said(1, None, 10, 1), None, "it may be ended at the same step");
    assert_eq!(said(1, Some(50), 7, 2), None, "the other rank is not there yet");
}

#[test]
fn a_rank_whose_loop_is_over_holds_up_none_that_goes_on() {
    let mut run = Run::of(2);
    run.go(0, 9);
    run.go(1, 3);
    let id = run.act(Act::Save).unwrap();
    run.declare(0, &Declare::Over { step: 10 });
    run.go(1, 20);
    assert!(run.acks().iter().any(|(i, phase, _)| *i == id && *phase != Phase::Queued), "{:?}", run.acks());
    let stop = run.act(Act::Stop).unwrap();
    let at = run.go(1, 99);
    assert!(run.acks().contains(&(stop, Phase::Applied, Some(at))));
    run.declare(1, &Declare::Over { step: at });
    assert_eq!(run.state(), State::Over);
}

#[test]
fn no_rank_ends_before_the_step_where_another_one_came_to_the_end_of_the_same_loop() {
    let mut run = Run::of(2);
    for rank in 0..2 {
        run.declare(rank, &Declare::Progress { start: 0, end: Some(20), stride: 1, number: 1, every: 0 });
    }
    run.go(1, 20);
    run.declare(1, &Declare::Over { step: 20 });
    run.go(0, 3);
    let id = run.act(Act::End { why: "SIGTERM".into() }).unwrap();
    assert_eq!(run.go(0, 20), 20, "nothing holds it");
    run.declare(0, &Declare::Over { step: 20 });
    assert!(run.acks().contains(&(id, Phase::Refused, None)), "{:?}", run.acks());
    assert!(!run.steering.ending(), "another loop may be ended");
}

#[test]
fn quit_ends_the_run_and_further_acts_are_refused() {
    let mut run = Run::of(1);
    run.go(0, 1);
    run.act(Act::Quit).unwrap();
    assert_eq!(run.state(), State::Quitting);
    assert_eq!(run.act(Act::Stop).unwrap_err().code(), Code::Closed);
    run.go(0, 2);
    run.with(|s, out| s.leave(0, false, out));
    assert_eq!(run.steering.state(), State::Ended);
    assert_eq!(run.act(Act::Run).unwrap_err().code(), Code::Closed);
}

#[test]
fn acts_that_a_run_did_not_live_to_carry_out_are_refused() {
    let mut run = Run::of(1);
    run.go(0, 1);
    let id = run.act(Act::Stop).unwrap();
    run.with(|s, out| s.leave(0, true, out));
    assert_eq!(run.acks().last().unwrap(), &(id, Phase::Refused, None));
    assert_eq!(run.steering.state(), State::Lost);
}

#[test]
fn a_late_rank_makes_up_for_the_acts_it_missed_at_their_steps() {
    let mut late = Run { steering: Steering::new(2), ..Run::of(0) };
    late.steps.insert(0, None);
    late.with(|s, out| s.join(0, 2, out));
    late.go(0, 5);
    late.act(Act::Save).unwrap();
    assert_eq!(late.go(0, 9), 9);
    late.steps.insert(1, None);
    late.with(|s, out| s.join(1, 2, out));
    assert_eq!(late.gates[&1], Some(6));
    assert_eq!(late.go(1, 9), 9);
    assert!(late.said.iter().any(|a| matches!(a, Action::Post { rank: 1, step: 6, .. })));
}

#[test]
fn a_rank_that_comes_when_the_others_are_through_makes_up_for_the_act_that_ended_their_loops() {
    let mut late = Run { steering: Steering::new(2), ..Run::of(0) };
    late.steps.insert(0, None);
    late.with(|s, out| s.join(0, 2, out));
    late.go(0, 5);
    let id = late.act(Act::Save).unwrap();
    late.go(0, 6);
    assert_eq!(late.acks().last(), Some(&(id, Phase::Applied, Some(6))));
    late.declare(0, &Declare::Over { step: 6 });
    late.steps.insert(1, None);
    late.with(|s, out| s.join(1, 2, out));
    assert_eq!(late.mail[&1], [(id, 6, Act::Save)]);
    assert_eq!(late.gates[&1], Some(6));
}

#[test]
fn waiting_acts_are_bounded() {
    let mut run = Run::of(1);
    run.go(0, 1);
    let refused = (0..1000).find_map(|_| run.act(Act::Save).err()).unwrap();
    assert_eq!(refused.code(), Code::Full);
}

/// The owner dies, and all its ranks come to another one, which finds those acts in the log.
fn succeed(run: &mut Run, acts: &[(u64, Act, Option<i64>)]) {
    let seen: Vec<Seen> = run.steps.iter().map(|(rank, step)| Seen { rank: *rank, step: *step }).collect();
    let left = |s: &Seen| {
        let gate = run.gates[&s.rank];
        let waits = gate.is_some_and(|gate| s.step.is_some_and(|step| step >= gate));
        LeftRank { seen: *s, gate, waits, holds: waits, over: false, done: 0 }
    };
    let ranks: Vec<LeftRank> = seen.iter().map(left).collect();
    run.mail.clear();
    run.steering = Steering::new(1);
    run.with(|s, out| s.take_over(seen.len() as u32, &seen, out));
    seen.iter().for_each(|s| run.steering.came(s.rank));
    assert!(run.steering.may_go_on());
    let act = |(id, act, step): &(u64, Act, Option<i64>)| LeftAct {
        id: *id,
        who: "tran".into(),
        at: 1.0,
        act: act.clone(),
        step: *step,
    };
    let acts = acts.iter().map(act).collect();
    run.with(|s, out| s.go_on(&ranks, acts, out));
}

#[test]
fn a_stop_that_no_rank_has_carried_out_is_agreed_on_anew_by_a_successor() {
    for size in [1, 2] {
        let mut run = Run::of(size);
        (0..size).for_each(|rank| assert_eq!(run.go(rank, 4), 4));
        let id = run.act(Act::Stop).unwrap();
        succeed(&mut run, &[(id, Act::Stop, None)]);
        (0..size).for_each(|rank| assert_eq!(run.go(rank, 9), 5));
        assert_eq!(run.state(), State::Held);
        succeed(&mut run, &[]);
        assert_eq!(run.state(), State::Held);
        (0..size).for_each(|rank| assert_eq!(run.go(rank, 9), 5));
    }
}

#[test]
fn acts_wait_until_all_ranks_of_a_dead_owner_have_come_or_are_gone() {
    let mut run = Run::of(2);
    run.go(0, 4);
    run.go(1, 4);
    let seen = [Seen { rank: 0, step: Some(4) }, Seen { rank: 1, step: Some(4) }];
    run.with(|s, out| s.take_over(2, &seen, out));
    run.steering.came(0);
    run.act(Act::Stop).unwrap();
    assert!(!run.steering.may_go_on());
    assert_eq!(run.gates[&0], None);
    run.with(|s, out| s.leave(1, true, out));
    assert!(run.steering.may_go_on());
    let left = LeftRank { seen: seen[0], gate: None, waits: false, holds: false, over: false, done: 0 };
    run.with(|s, out| s.go_on(&[left], Vec::new(), out));
    assert_eq!(run.go(0, 9), 5);
}
