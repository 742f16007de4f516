//! A world of servers that work, die, are cut off and come back, by seed: whatever happens, each task has one end, and
//! results come in order.

use super::*;
use crate::call::placement::Named;
use forebay_link::QuickMap;
use forebay_types::directory::Incarnation;

fn server(key: ServerKey, workers: u32) -> Arc<ServerInfo> {
    Arc::new(ServerInfo { incarnation: Incarnation(key), workers, ..ServerInfo::default() })
}

/// Numbers that look random, the same for a seed.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[derive(Default, Debug)]
struct Events {
    replies: u64,
    deaths: u64,
    cuts: u64,
    refused: u64,
    withdrawn: u64,
    cancelled: u64,
    killers: u64,
    unknown: u64,
    starved: u64,
    wrong: u64,
    doubled: u64,
    first_of_two: u64,
    bound: u64,
    without_home: u64,
}

/// The next task and where it goes, by a rule that is asked at once or, a moment later, with nothing locked.
fn place(machine: &mut Machine, asks: bool, now: Ns) -> Option<(u64, ServerKey)> {
    if !asks {
        return machine.place(Some(&Named::Least), now);
    }
    machine.place(None, now).or_else(|| {
        let question = machine.question(now)?;
        let key = question.put(&Named::Turns, "f")?;
        machine.place_at(question.index, key, now)
    })
}

fn simulate(seed: u64, events: &mut Events) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let rules = Rules {
        ordered: dice.throw(2) == 0,
        window: (dice.throw(4) == 0).then_some(1 + dice.throw(8) as u32),
        bytes: 10_000,
        effects: dice.throw(4) == 0,
        tail: dice.throw(4) > 0,
    };
    let tasks = dice.throw(300);
    let (costs, asks) = (dice.throw(2) == 0, dice.throw(2) == 0);
    // Whatever runs it, dies.
    let killer = (dice.throw(3) == 0).then(|| dice.throw(tasks.max(1)));
    let mut machine = Machine::new("f", rules);
    let mut now = 1_000_000_000;
    let mut next_key = 0;
    let mut at: Vec<(u64, ServerKey)> = Vec::new();
    let mut delivered = Vec::new();
    let mut ends: QuickMap<u64, u32> = QuickMap::default();
    let mut end = |task: u64| *ends.entry(task).or_default() += 1;
    for round in 0.. {
        assert!(round < 100_000, "seed {seed}: no end: {:?}", machine.counts());
        now += dice.throw(200_000_000);
        machine.visit(now);
        for _ in 0..dice.throw(6) {
            if machine.counts().pulled == tasks {
                machine.end();
            } else if machine.wants_input() {
                if dice.throw(50) == 0 {
                    let index = machine.pulled_wrong();
                    events.wrong += 1;
                    end(index);
                } else {
                    let size = if costs { Size::of_cost(1 << dice.throw(20)) } else { Size::default() };
                    let servers = machine.servers.len() as u64;
                    match machine.servers.get(dice.throw(4 * servers.max(1)) as usize) {
                        Some(home) if dice.throw(2) == 0 => {
                            let home = home.key;
                            machine.pulled_for(home, dice.throw(20_000), size);
                        }
                        _ => drop(machine.pulled(dice.throw(20_000), size)),
                    }
                }
            }
        }
        let keys: Vec<ServerKey> = machine.servers.iter().map(|s| s.key).collect();
        if keys.len() < 4 && dice.throw(8) == 0 {
            next_key += 1;
            machine.offered(&server(next_key, 1 + dice.throw(3) as u32));
        }
        if let Some(key) = keys.get(dice.throw(40) as usize) {
            match dice.throw(3) {
                0 => {
                    for task in machine.withdrawn(*key) {
                        events.without_home += 1;
                        machine.over(task, TaskFate::Failed, 0);
                        end(task);
                    }
                    events.withdrawn += 1;
                }
                how => {
                    at.retain(|(_, k)| k != key);
                    for (task, verdict) in machine.lost(*key, now) {
                        match verdict {
                            Verdict::Unknown => events.unknown += 1,
                            Verdict::Kills => events.killers += 1,
                            Verdict::Bound => events.without_home += 1,
                        }
                        machine.over(task, TaskFate::Failed, 0);
                        end(task);
                    }
                    match how {
                        1 => {
                            events.cuts += 1;
                            machine.offered(&server(*key, 1 + dice.throw(3) as u32));
                        }
                        _ => events.deaths += 1,
                    }
                }
            }
        }
        while let Some((task, key)) = place(&mut machine, asks, now) {
            assert!(machine.servers.iter().any(|s| s.key == key && !s.is_closed));
            if dice.throw(30) == 0 {
                machine.refused(task, key, now);
                events.refused += 1;
                continue;
            }
            assert!(!at.iter().any(|(t, _)| *t == task), "seed {seed}: task {task} is at two servers");
            at.push((task, key));
            if let Some(home) = machine.tasks.get(task).and_then(Task::home) {
                assert_eq!(home, key, "seed {seed}: a task is not where it can be run");
                events.bound += 1;
            }
            if machine.is_suspect(task) {
                let beside = at.iter().filter(|(_, k)| *k == key).count();
                assert_eq!(beside, 1, "seed {seed}: a suspect is not alone");
            }
        }
        while let Some((task, key)) = machine.double(now) {
            assert!(!rules.effects && rules.tail && machine.counts().pulled == tasks, "seed {seed}");
            let before: Vec<ServerKey> = at.iter().filter(|(t, _)| *t == task).map(|(_, k)| *k).collect();
            assert!(before.len() == 1 && before[0] != key, "seed {seed}: {task} from {before:?} to {key}");
            if dice.throw(10) == 0 {
                machine.refused(task, key, now);
                break;
            }
            events.doubled += 1;
            at.push((task, key));
        }
        for _ in 0..dice.throw(4) {
            if at.is_empty() {
                break;
            }
            let (task, key) = at.swap_remove(dice.throw(at.len() as u64) as usize);
            if Some(task) == killer && !rules.effects {
                at.retain(|(_, k)| *k != key);
                events.deaths += 1;
                for (task, verdict) in machine.lost(key, now) {
                    match verdict {
                        Verdict::Kills => events.killers += 1,
                        Verdict::Bound => events.without_home += 1,
                        Verdict::Unknown => panic!("seed {seed}: it has no effects"),
                    }
                    machine.over(task, TaskFate::Failed, 0);
                    end(task);
                }
                continue;
            }
            events.replies += 1;
            let ran = dice.throw(5_000_000);
            machine.came(
                task,
                key,
                Some(Times { ran, waited: 0, total: ran + dice.throw(100_000), there: 1 }),
                now,
            );
            let others = at.len();
            if dice.throw(40) == 0 && !machine.is_bound(task) {
                machine.again(task);
            } else {
                machine.over(task, TaskFate::Done, dice.throw(5_000));
                end(task);
                at.retain(|(t, _)| *t != task);
                events.first_of_two += (others - at.len()) as u64;
            }
        }
        let pulled = machine.counts().pulled;
        if dice.throw(30) == 0 && pulled > 0 {
            let task = pulled - 1 - dice.throw(pulled.min(8));
            if machine.cancel(task) {
                events.cancelled += 1;
                end(task);
                at.retain(|(t, _)| *t != task);
            }
        }
        if machine.is_starved() && dice.throw(30) == 0 {
            for task in machine.give_up() {
                events.starved += 1;
                machine.over(task, TaskFate::Failed, 0);
                end(task);
            }
        }
        for _ in 0..dice.throw(5) {
            delivered.extend(machine.deliver());
        }
        let counts = machine.counts();
        let mut under_way: Vec<u64> = at.iter().map(|(task, _)| *task).collect();
        under_way.sort_unstable();
        under_way.dedup();
        assert_eq!(counts.under_way, under_way.len() as u64, "seed {seed}");
        let held: u64 = machine.tasks.iter().map(|(_, t)| t.bytes).sum();
        assert_eq!(machine.bytes, held, "seed {seed}");
        if machine.is_over() {
            break;
        }
    }
    if rules.ordered {
        assert!(delivered.iter().copied().eq(0..tasks), "seed {seed}");
    }
    delivered.sort_unstable();
    assert!(delivered.iter().copied().eq(0..tasks), "seed {seed}: handed out once each");
    assert!((0..tasks).all(|task| ends.get(&task) == Some(&1)), "seed {seed}: one end each");
    assert!((0..tasks).all(|task| machine.fate(task).is_some()), "seed {seed}");
}

#[test]
fn whatever_happens_to_servers_each_task_has_one_end() {
    let mut events = Events::default();
    for seed in 0..3_000 {
        simulate(seed, &mut events);
    }
    let Events {
        replies, deaths, cuts, refused, withdrawn, cancelled, killers, unknown, starved, wrong, ..
    } = events;
    let all = [replies, deaths, cuts, refused, withdrawn, cancelled, killers, unknown, starved, wrong];
    assert!(
        all.into_iter()
            .chain([events.doubled, events.first_of_two, events.bound, events.without_home])
            .all(|n| n > 100),
        "each happened often: {events:?}"
    );
}

/// How long a list of tasks takes on servers of those speeds, and the ideal; `cost` of each by its length, if it is said.
fn makespan(lengths: &[f64], speeds: &[f64], beside: f64, cost: Option<fn(f64) -> u64>) -> (f64, f64) {
    let mut machine = Machine::new(
        "f",
        Rules { ordered: false, window: None, bytes: u64::MAX, effects: false, tail: true },
    );
    for key in 0..speeds.len() {
        machine.offered(&server(key as u64, 1));
    }
    // By server: when it is free, and what it has.
    let mut queues: Vec<VecDeque<(u64, f64)>> = vec![VecDeque::new(); speeds.len()];
    let mut running: Vec<Option<(u64, f64, f64)>> = vec![None; speeds.len()];
    let (mut now, mut over) = (0.0f64, 0);
    while over < lengths.len() {
        machine.visit(now as u64);
        while let Some(length) = lengths.get(machine.counts().pulled as usize)
            && machine.wants_input()
        {
            machine.pulled(0, cost.map(|cost| Size::of_cost(cost(*length))).unwrap_or_default());
        }
        if machine.counts().pulled == lengths.len() as u64 {
            machine.end();
        }
        while let Some((task, key)) = machine.place(Some(&Named::Least), now as u64) {
            queues[key as usize].push_back((task, now));
        }
        for (server, queue) in queues.iter_mut().enumerate() {
            if running[server].is_none()
                && let Some((task, sent)) = queue.pop_front()
            {
                let begin = now.max(sent + beside / 2.0);
                running[server] = Some((task, begin, begin + lengths[task as usize] / speeds[server]));
            }
        }
        let ends = running.iter().enumerate().filter_map(|(i, r)| r.map(|(_, _, end)| (i, end)));
        let (server, end) = ends.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        now = end;
        let (task, begin, end) = running[server].take().unwrap();
        let ran = (end - begin) as u64;
        machine.came(
            task,
            server as u64,
            Some(Times { ran, waited: 0, total: ran + beside as u64, there: 1 }),
            now as u64,
        );
        machine.over(task, TaskFate::Done, 0);
        machine.deliver();
        over += 1;
    }
    let speed: f64 = speeds.iter().sum();
    let longest = lengths.iter().copied().fold(0.0, f64::max) / speeds.iter().copied().fold(0.0, f64::max);
    (now, (lengths.iter().sum::<f64>() / speed).max(longest))
}

#[test]
fn a_task_whose_server_is_there_again_is_no_suspect() {
    let mut machine =
        Machine::new("f", Rules { ordered: true, window: None, bytes: u64::MAX, effects: false, tail: true });
    machine.offered(&server(1, 1));
    let task = machine.pulled(0, Size::default());
    let mut now = 0;
    for _ in 0..20 {
        assert_eq!(machine.place(Some(&Named::Least), now), Some((task, 1)));
        assert!(machine.lost(1, now).is_empty());
        assert_eq!(machine.suspects, [task]);
        machine.offered(&server(1, 1));
        assert!(machine.suspects.is_empty());
        now += 1_000_000;
    }
    for key in 2..4 {
        assert_eq!(machine.place(Some(&Named::Least), now), Some((task, key - 1)));
        assert!(machine.lost(key - 1, now).is_empty());
        machine.offered(&server(key, 1));
        assert_eq!(
            machine.place(Some(&Named::Least), now),
            None,
            "those that were lost together are known in a moment"
        );
        now += TOGETHER;
    }
    assert_eq!(machine.place(Some(&Named::Least), now), Some((task, 3)));
    assert_eq!(machine.lost(3, now), [(task, Verdict::Kills)]);
}

#[test]
fn uneven_tasks_and_uneven_servers_take_little_longer_than_they_must() {
    let mut dice = Dice(7);
    let mut ratios = Vec::new();
    for _ in 0..40 {
        let servers = 2 + dice.throw(3) as usize;
        let speeds: Vec<f64> = (0..servers).map(|_| [0.5, 1.0, 1.0, 2.0][dice.throw(4) as usize]).collect();
        let mut normal = || (0..12).map(|_| dice.throw(1_000) as f64 / 1_000.0).sum::<f64>() - 6.0;
        let lengths: Vec<f64> = (0..1_000 * servers).map(|_| 20e6 * (1.5 * normal()).exp()).collect();
        let (took, ideal) = makespan(&lengths, &speeds, 30_000.0, None);
        ratios.push(took / ideal);
    }
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[20] < 1.05 && ratios[39] < 1.3, "median {}, worst {}", ratios[20], ratios[39]);
}

#[test]
fn tasks_that_differ_in_their_cost_alone_take_little_longer_than_they_must_if_it_is_said() {
    let (short, long) = (2_000.0, 20_000_000.0);
    let mut lengths = vec![short; 4_000];
    // Every other one is long: in turn, one of two servers would have them all.
    lengths.extend([long, short].repeat(12));
    for speeds in [&[1.0, 1.0][..], &[1.0, 1.0, 1.0, 1.0]] {
        let (said, ideal) = makespan(&lengths, speeds, 30_000.0, Some(|length| length as u64 / 2_000));
        // As a service that is right about how its work grows and wrong about its speed.
        let (about, _) = makespan(&lengths, speeds, 30_000.0, Some(|length| length as u64 / 5_000 + 100));
        let (silent, _) = makespan(&lengths, speeds, 30_000.0, None);
        let ratio = |took: f64| took / ideal;
        assert!(ratio(said) < 1.15 && ratio(about) < 1.15, "{} and {}", ratio(said), ratio(about));
        assert!(ratio(silent) > 1.5, "nobody could know: {}", ratio(silent));
    }
}

#[test]
fn at_the_end_the_longest_tasks_go_first_and_those_that_come_back_in_their_turn() {
    let mut machine =
        Machine::new("f", Rules { ordered: true, window: None, bytes: u64::MAX, effects: false, tail: true });
    for cost in [5, 900, 5, 70_000, 900] {
        machine.pulled(0, Size::of_cost(cost));
    }
    machine.offered(&server(1, 2));
    assert_eq!(machine.place(Some(&Named::Least), 0), Some((0, 1)), "there may be more");
    machine.end();
    assert_eq!(machine.place(Some(&Named::Least), 0), Some((3, 1)));
    machine.refused(3, 1, 0);
    machine.refused(0, 1, 0);
    assert_eq!(machine.waiting, [3, 1, 4, 0, 2]);
}

#[test]
fn a_server_has_more_short_tasks_than_long_ones() {
    let windows = [300, 100_000, 100_000_000].map(|ran| {
        let mut machine = Machine::new(
            "f",
            Rules { ordered: true, window: None, bytes: u64::MAX, effects: false, tail: true },
        );
        machine.offered(&server(1, 2));
        for _ in 0..20 {
            let task = machine.pulled(0, Size::default());
            assert_eq!(machine.place(Some(&Named::Least), 0), Some((task, 1)));
            machine.came(task, 1, Some(Times { ran, waited: 0, total: ran + 3_000, there: 1 }), 0);
            machine.over(task, TaskFate::Done, 0);
        }
        machine.window(&machine.servers[0])
    });
    assert!(windows[0] > 50 && (3..6).contains(&windows[1]) && windows[2] == 2, "{windows:?}");
}

#[test]
fn a_task_larger_than_the_bound_runs_alone() {
    let mut machine =
        Machine::new("f", Rules { ordered: true, window: None, bytes: 100, effects: false, tail: true });
    machine.offered(&server(1, 4));
    machine.pulled(1_000, Size::default());
    assert!(!machine.wants_input());
    let (task, _) = machine.place(Some(&Named::Least), 0).unwrap();
    machine.came(task, 1, None, 0);
    machine.over(task, TaskFate::Done, 500);
    assert!(!machine.wants_input());
    machine.deliver();
    assert!(machine.wants_input());
}

#[test]
fn a_task_that_nobody_asked_for_finds_its_place_until_results_that_nobody_took_have_it() {
    let mut machine =
        Machine::new("f", Rules { ordered: true, window: None, bytes: 100, effects: false, tail: true });
    machine.offered(&server(1, 2));
    let first = machine.pulled(60, Size::default());
    assert_eq!(machine.space(), Space::Free);
    machine.pulled(60, Size::default());
    // Both are under way, and may leave nothing behind.
    assert_eq!(machine.space(), Space::Later);
    while machine.place(Some(&Named::Least), 0).is_some() {}
    machine.came(first, 1, None, 0);
    machine.over(first, TaskFate::Done, 160);
    assert_eq!(machine.space(), Space::Taken);
    machine.deliver();
    assert_eq!(machine.space(), Space::Free);
    machine.came(first + 1, 1, None, 0);
    machine.over(first + 1, TaskFate::Failed, 0);
    machine.deliver();
    assert!(machine.is_idle());
    let mut machine = Machine::new("f", Rules { bytes: u64::MAX, ..machine.rules });
    for _ in 0..AHEAD as u64 {
        assert_eq!(machine.space(), Space::Free);
        machine.pulled(0, Size::default());
    }
    assert_eq!(machine.space(), Space::Taken);
    machine.end();
    assert!(!machine.is_idle() && machine.has_ended());
}

#[test]
fn the_last_task_of_a_late_server_is_given_to_a_second_one_and_whoever_is_first_ends_it() {
    let rules = Rules { ordered: true, window: None, bytes: u64::MAX, effects: false, tail: true };
    for (tail, second_is_lost) in [(true, false), (true, true), (false, false)] {
        let mut machine = Machine::new("f", Rules { tail, ..rules });
        machine.offered(&server(1, 1));
        machine.offered(&server(2, 1));
        let mut now = 0;
        for _ in 0..20 {
            let task = machine.pulled(0, Size::default());
            let (_, key) = machine.place(Some(&Named::Least), now).unwrap();
            now += 1_000_000;
            let times = Times { ran: 1_000_000, waited: 0, total: 1_010_000, there: 1 };
            machine.came(task, key, Some(times), now);
            machine.over(task, TaskFate::Done, 0);
            machine.deliver();
        }
        let last = machine.pulled(0, Size::default());
        let (_, key) = machine.place(Some(&Named::Least), now).unwrap();
        now += 100_000_000;
        assert_eq!(machine.double(now), None, "there may be more input");
        machine.end();
        let second = machine.double(now);
        assert_eq!(second, tail.then_some((last, 3 - key)));
        assert_eq!(machine.double(now), None, "not a third one");
        assert_eq!(machine.counts().under_way, 1);
        if second_is_lost {
            assert!(machine.lost(3 - key, now).is_empty());
            assert!(machine.is_under_way(last) && !machine.is_waiting());
            machine.came(last, key, None, now);
        } else if tail {
            machine.came(last, 3 - key, None, now);
            assert!(machine.is_under_way(last));
        }
        machine.over(last, TaskFate::Done, 0);
        machine.deliver();
        assert!(machine.is_over() && machine.counts().under_way == 0);
        assert!(machine.servers.iter().all(|s| s.under_way.is_empty()));
    }
}
