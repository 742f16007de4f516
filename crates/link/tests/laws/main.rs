//! What every transport of frames keeps, whatever lies below it: shared memory, TCP, TLS, and a pair of Unix sockets that
//! is written here, upon the contract alone.
//!
//! ```text
//!  laws (generic)  x  transports: SharedMemory, Tcp, Tls, Sockets   = one test each
//!                        |
//!                        +-- offer / join: two ends, in one process or in two
//! ```
//!
//! A new transport is a line in `every_transport!`.

#[path = "../frames/mod.rs"]
mod frames;
mod laws;
mod sockets;
mod transports;

use transports::{Net, SharedMemory};

macro_rules! laws {
    ($name:ident: $transport:ty; $($law:ident)*) => {
        mod $name {
            use super::*;
            $(#[test]
            fn $law() {
                laws::$law::<$transport>();
            })*
        }
    };
}

macro_rules! every_transport {
    ($($name:ident: $transport:ty;)*) => {
        $(laws! { $name: $transport;
            there_is_nothing_before_something_is_sent
            a_frame_comes_whole_with_its_kind_flags_and_number
            bodies_of_all_sizes_come_in_whatever_parts_they_were_given
            frames_come_in_the_order_in_which_they_were_sent
            looking_for_a_frame_does_not_take_it
            both_ends_send_at_once
            a_link_that_is_full_says_so_and_goes_on_when_it_is_read
            two_ends_that_are_both_full_get_out_of_it
            a_frame_that_never_fits_is_no_matter_of_waiting
            who_waits_is_woken_by_a_frame_and_by_the_deadline
            what_was_sent_before_the_end_comes_before_the_end
            an_end_that_is_gone_leaves_what_it_had_not_read
            a_process_that_is_killed_leaves_whole_frames_and_its_end_is_told
            a_process_that_is_stopped_keeps_nobody_beyond_the_deadline
            a_process_that_answers_is_heard_as_well_as_a_thread
            any_bytes_are_a_frame_an_error_or_nothing
            whatever_two_ends_do_at_random_is_what_was_sent
            links_that_are_gone_leave_no_descriptor
        })*

        /// No test of its own: the other process of some of them.
        #[test]
        fn other_process() {
            let Some(part) = laws::part() else { return };
            $(if part.transport == stringify!($name) {
                return laws::play::<$transport>(&part);
            })*
            panic!("no transport {}", part.transport);
        }

        $(impl transports::Named for $transport {
            const NAME: &'static str = stringify!($name);
        })*
    };
}

every_transport! {
    shared_memory: SharedMemory;
    tcp: Net<false>;
    tls: Net<true>;
    unix_sockets: sockets::Sockets;
}
