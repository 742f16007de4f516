//! What clients beside the ranks change for these: nothing.

use super::Event;
use super::scene::*;
use super::session::Session;
use forebay_types::control::{Ask, NO_RANK};

fn client(number: u64) -> Session {
    Session { number, rank: NO_RANK, size: 0, pid: 99, ring: RING, ..Session::default() }
}

#[test]
fn a_step_that_lacks_a_rank_is_given_up_as_if_no_client_were_there() {
    let mut scene = Scene::of(2);
    scene.enter(client(3));
    scene.whole(1, 1);
    scene.hang(2);
    scene.settle();
    let late = scene.late();
    assert!(late.len() == 1 && late[0].1.contains("rank 1 of 2"), "{late:?}");
    scene.hang(1);
    scene.settle();
    assert_eq!(scene.closed(), [2, 1], "the client stays");
}

#[test]
fn a_rank_goes_back_and_begins_steps_without_waiting_for_clients_that_were_there_before_it() {
    let mut scene = Scene::born(birth());
    scene.enter(client(1));
    scene.feed(Event::Alone { session: 5, life: 5 });
    scene.enter(session(5, 0, 1));
    let asked = scene.ask(5, &Ask::Restart { tag: None, strict: false });
    // Nobody looks whether the client lives, and its ring was never read to its end.
    scene.feed(Event::Seen { session: 5, lives: true, left: false, unsure: false });
    scene.feed(Event::Turn);
    scene.commit();
    assert!(scene.answer(5, asked).is_some());
    scene.whole(5, 1);
    scene.feed(Event::Turn);
    scene.commit();
    assert!(scene.describe(), "the step is complete");
}

#[test]
fn steps_of_a_client_are_refused_and_its_puts_are_applied_when_it_is_killed() {
    let mut scene = Scene::of(1);
    scene.enter(client(2));
    scene.whole(2, 1);
    let put = scene.put(2);
    scene.hang(2);
    scene.settle();
    let late = scene.late();
    assert!(!late.is_empty() && late.iter().all(|(session, _)| *session == 2), "{late:?}");
    assert!(late[0].1.contains("a client takes no snapshots"), "{late:?}");
    assert!(scene.catalog.iter().any(|item| item.source() == Some((2, put))));
    assert_eq!(scene.closed(), [2]);
    scene.whole(1, 1);
    scene.settle();
    assert!(scene.late().is_empty(), "the number is free");
}

#[test]
fn an_owner_that_ends_leaves_clients_to_the_next_one_when_what_it_has_read_of_them_is_done() {
    for goes_on in [true, false] {
        let mut scene = Scene::of(1);
        scene.enter(client(2));
        let put = scene.large_put(2);
        scene.turn();
        scene.feed(Event::Close { clients_go_on: goes_on });
        scene.turn();
        scene.commit();
        assert!(!scene.m.is_over(), "the large one is not stored");
        scene.settle();
        assert!(scene.m.is_over() && !scene.m.reads(2));
        assert!(scene.catalog.iter().any(|item| item.source() == Some((2, put))));
        assert_eq!(scene.closed().contains(&2), !goes_on);
    }
}
