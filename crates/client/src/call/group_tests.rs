//! Groups, with calls that end when they are told to.

use std::sync::Condvar;

use super::*;

/// A call that ends when it is told to.
#[derive(Default)]
struct Call {
    outcome: Mutex<Option<Result<()>>>,
    told: Condvar,
}

impl Call {
    fn tell(&self, outcome: Result<()>) {
        lock(&self.outcome).get_or_insert(outcome);
        self.told.notify_all();
    }

    fn outcome(&self) -> Option<Result<()>> {
        lock(&self.outcome).clone()
    }
}

impl Joined for Call {
    fn join(&self, timeout: Option<Duration>) -> Result<Option<Result<()>>> {
        let outcome = lock(&self.outcome);
        let timeout = timeout.unwrap_or(Duration::from_secs(60));
        let (outcome, _) =
            self.told.wait_timeout_while(outcome, timeout, |outcome| outcome.is_none()).unwrap();
        Ok(outcome.clone())
    }

    fn cancel(&self) {
        self.tell(Err(Error::new(Code::Cancelled, "given up")));
    }
}

fn add(group: &Group<Call>, service: &str) -> Arc<Call> {
    let call = Arc::new(Call::default());
    group.add(group.issue().unwrap(), service, call.clone()).unwrap();
    call
}

fn failure(text: &str) -> Result<()> {
    Err(Error::new(Code::RemoteError, text))
}

fn code(outcome: Result<impl std::fmt::Debug>) -> Code {
    outcome.unwrap_err().code()
}

const NOW: Option<Duration> = Some(Duration::ZERO);

#[test]
fn the_end_tells_the_first_failure_in_the_order_of_issue_whichever_came_first() {
    let group = Group::begin();
    let calls: Vec<_> = ["f", "g", "h", "f"].iter().map(|service| add(&group, service)).collect();
    calls[3].tell(failure("late in order, early in time"));
    calls[0].tell(Ok(()));
    let refused = group.end(NOW).unwrap_err();
    assert_eq!(refused.code(), Code::Timeout);
    assert!(refused.text().contains("call 2 of 4 (g)"), "{refused}");
    calls[1].tell(Ok(()));
    calls[2].tell(failure("no room"));
    let joint = group.end(None).unwrap();
    assert_eq!(joint.calls, 4);
    let (index, error) = joint.failed.unwrap();
    assert_eq!((index, error.text()), (2, "call 3 of 4 (h): no room"));
    assert_eq!(code(group.end(None)), Code::Closed);
    assert_eq!(code(group.issue().map(|_| ())), Code::Closed);
}

#[test]
fn a_group_ends_what_is_open_within_it_and_what_has_ended_there_does_not_count_twice() {
    let outer = Group::begin();
    let first = add(&outer, "a");
    let ended = outer.begin_within().unwrap();
    add(&ended, "b").tell(failure("told by its own group"));
    assert!(ended.end(None).unwrap().failed.is_some());
    let open = outer.begin_within().unwrap();
    let within = add(&open, "c");
    let deep = open.begin_within().unwrap();
    add(&deep, "d").tell(Ok(()));
    let last = add(&outer, "e");
    [first, last].iter().for_each(|call| call.tell(Ok(())));
    assert_eq!(code(outer.end(NOW)), Code::Timeout);
    within.tell(failure("within"));
    let joint = outer.end(None).unwrap();
    assert_eq!(joint.calls, 4);
    assert_eq!(joint.failed.unwrap().1.text(), "call 2 of 4 (c): within");
    assert_eq!(code(open.end(None)), Code::Closed);
    assert_eq!(code(deep.issue().map(|_| ())), Code::Closed);
    assert!(lock(&outer.tree.state).calls.is_empty() && lock(&outer.tree.state).groups.is_empty());
}

#[test]
fn who_cancels_a_group_gives_up_what_is_in_it_and_within_and_nothing_more_goes_in() {
    let outer = Group::begin();
    let own = add(&outer, "a");
    let inner = outer.begin_within().unwrap();
    let theirs = add(&inner, "b");
    let ticket = inner.issue().unwrap();
    inner.cancel().unwrap();
    let late = Arc::new(Call::default());
    assert_eq!(code(inner.add(ticket, "b", late.clone())), Code::Cancelled);
    assert_eq!(code(inner.begin_within().map(|_| ())), Code::Cancelled);
    assert_eq!((own.outcome(), code(theirs.outcome().unwrap())), (None, Code::Cancelled));
    assert_eq!(code(late.outcome().unwrap()), Code::Cancelled);
    outer.cancel().unwrap();
    assert_eq!(outer.end(None).unwrap().failed.unwrap().0, 0);
    assert_eq!(code(own.outcome().unwrap()), Code::Cancelled);
}

#[test]
fn a_group_that_is_dropped_before_its_end_gives_its_calls_up_and_one_within_is_left_to_the_one_around() {
    let outer = Group::begin();
    let inner = outer.begin_within().unwrap();
    let call = add(&inner, "f");
    drop(inner);
    call.tell(failure("left behind"));
    assert_eq!(outer.end(NOW).unwrap().failed.unwrap().0, 0);

    let outer = Group::begin();
    let inner = outer.begin_within().unwrap();
    let calls = [add(&outer, "f"), add(&inner, "f")];
    drop(outer);
    assert!(calls.iter().all(|call| code(call.outcome().unwrap()) == Code::Cancelled));
    assert_eq!(code(inner.end(NOW)), Code::Closed);
}

#[test]
fn while_a_thread_ends_a_group_another_one_cancels_it_and_adds_nothing() {
    let group = Group::begin();
    let call = add(&group, "f");
    let inner = group.begin_within().unwrap();
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| group.end(None).unwrap());
        while group.issue().is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(code(group.end(None)), Code::Conflict);
        assert_eq!(code(inner.issue().map(|_| ())), Code::Conflict);
        assert_eq!(code(inner.end(None)), Code::Conflict);
        group.cancel().unwrap();
        assert_eq!(ends.join().unwrap().failed.unwrap().1.code(), Code::Cancelled);
    });
    assert_eq!(code(call.outcome().unwrap()), Code::Cancelled);
}

#[test]
fn groups_stand_within_each_other_as_deep_as_the_limit_and_no_deeper() {
    let mut groups = vec![Group::<Call>::begin()];
    for _ in 1..DEPTH {
        let inner = groups.last().unwrap().begin_within().unwrap();
        groups.push(inner);
    }
    assert_eq!(code(groups.last().unwrap().begin_within().map(|_| ())), Code::Full);
    assert_eq!(groups[0].end(NOW).unwrap().calls, 0);
}
