//! A thread that serves others and waits for others itself: while it waits, somebody stands in for it.
//!
//! Whoever runs services gives its threads a [`Post`]; whoever waits says so before it sleeps. So a host of services
//! and a client need not know each other, and a service may call its own server.
//!
//! ```text
//! worker:  hold(post) ... the body of a service ... Wait::begin -- polls -- leave() -- sleeps -- end of the Wait
//!                                                                     |                             |
//!                                                       post.leave(): another one serves     post.come_back()
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use forebay_types::Error;

/// The place of a thread among those that serve.
pub trait Post {
    /// It is about to sleep until somebody else has done something. False when nobody serves meanwhile: all others sleep
    /// so, and nobody can be had to stand in.
    fn leave(&self) -> bool;
    /// It goes on; this may have to wait until its place is free.
    fn come_back(&self);
    /// Why this thread is not to wait any longer, if so. `alone`: nobody serves while it does.
    fn objects(&self, alone: bool) -> Option<Error>;
}

thread_local! {
    static POST: RefCell<Option<Rc<dyn Post>>> = const { RefCell::new(None) };
    static WAITS: Cell<Waits> = const { Cell::new(Waits { begun: 0, away: false, alone: false }) };
}

#[derive(Clone, Copy)]
struct Waits {
    /// Waits of this thread that have begun, one within the other.
    begun: u32,
    /// Somebody stands in for it,
    away: bool,
    /// or nobody does, although it left.
    alone: bool,
}

/// This thread serves others from now on.
pub fn hold(post: Rc<dyn Post>) {
    POST.set(Some(post));
}

/// Whether this thread does.
pub fn serves() -> bool {
    POST.with_borrow(Option::is_some)
}

/// A wait. What is done for it in pieces is one wait, if it lies within another one: the thread comes back when the
/// outermost ends.
pub struct Wait {
    // Ends in the thread that began it.
    _here: std::marker::PhantomData<*const ()>,
}

impl Wait {
    /// It begins; nothing happens until [`leave`].
    #[inline]
    pub fn begin() -> Wait {
        let waits = WAITS.get();
        WAITS.set(Waits { begun: waits.begun + 1, ..waits });
        Wait { _here: std::marker::PhantomData }
    }
}

impl Drop for Wait {
    #[inline]
    fn drop(&mut self) {
        let waits = WAITS.get();
        let begun = waits.begun - 1;
        WAITS.set(Waits { begun, away: waits.away && begun > 0, alone: waits.alone && begun > 0 });
        if waits.away && begun == 0 {
            come_back();
        }
    }
}

/// This thread is about to sleep: somebody stands in for it until its wait is over, if it serves others.
#[inline]
pub fn leave() {
    let waits = WAITS.get();
    if waits.begun > 0 && !waits.away {
        leave_post(waits);
    }
}

#[cold]
fn leave_post(waits: Waits) {
    if let Some(post) = POST.with_borrow(Clone::clone) {
        WAITS.set(Waits { away: true, ..waits });
        let alone = !post.leave();
        WAITS.set(Waits { alone, ..WAITS.get() });
    }
}

/// Why this thread is not to go on with its wait, if it serves others and there is a reason: whoever waits for what
/// another one does asks this now and then, and ends the wait with that error.
#[inline]
pub fn objection() -> Option<Error> {
    let waits = WAITS.get();
    match waits.begun {
        0 => None,
        _ => POST.with_borrow(|post| post.as_ref()?.objects(waits.alone)),
    }
}

#[cold]
fn come_back() {
    if let Some(post) = POST.with_borrow(Clone::clone) {
        post.come_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counted {
        left: Cell<u32>,
        back: Cell<u32>,
        alone: Cell<bool>,
    }

    impl Post for Counted {
        fn leave(&self) -> bool {
            self.left.set(self.left.get() + 1);
            !self.alone.get()
        }

        fn come_back(&self) {
            self.back.set(self.back.get() + 1);
        }

        fn objects(&self, alone: bool) -> Option<Error> {
            alone.then(|| Error::bad("nobody serves"))
        }
    }

    #[test]
    fn a_thread_leaves_its_post_when_it_sleeps_and_comes_back_at_the_end_of_the_outermost_wait() {
        let post = Rc::new(Counted::default());
        hold(post.clone());
        let seen = || (post.left.get(), post.back.get());
        leave();
        drop(Wait::begin());
        assert_eq!(seen(), (0, 0), "who does not wait, or does not sleep, stays");
        let outer = Wait::begin();
        for _ in 0..3 {
            let _inner = Wait::begin();
            leave();
        }
        assert_eq!(seen(), (1, 0));
        drop(outer);
        assert_eq!(seen(), (1, 1));
        drop(Wait::begin());
        assert_eq!(seen(), (1, 1));
    }

    #[test]
    fn who_leaves_and_nobody_serves_is_told_so_until_its_wait_ends() {
        let post = Rc::new(Counted::default());
        hold(post.clone());
        post.alone.set(true);
        let wait = Wait::begin();
        assert!(objection().is_none(), "it has not left yet");
        leave();
        assert!(objection().is_some());
        drop(wait);
        assert!(objection().is_none());
    }

    #[test]
    fn a_thread_that_serves_nobody_just_sleeps() {
        let _wait = Wait::begin();
        leave();
        assert!(objection().is_none());
    }
}
