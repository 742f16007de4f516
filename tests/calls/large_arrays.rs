//! Large arrays that servers hold: a client of the same host puts and gets them where they lie, one of another host by
//! calls, and nobody can tell which by what comes out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_client::call::{Arg, Client, On, Reference, Value};
use forebay_client::run::View;
use forebay_types::{ArrayMeta, Code, DType, Order, Scalar, Selection, Shape, Strided};
use rustix::process::Signal;

use crate::roles::{World, until};

/// Numbers of an array, 800 kB.
const N: usize = 100_000;

fn flat(n: usize) -> ArrayMeta {
    ArrayMeta::new(DType::F64, Shape::new(&[n as u64]).unwrap())
}

fn all() -> Selection {
    Selection::default()
}

fn put(client: &Client, value: f64) -> Reference {
    client.put(View::of(&[value; N], &[N as u64]).unwrap(), On::Any).unwrap()
}

fn fill(array: &Reference, value: f64) -> forebay_types::Result<()> {
    array.put(View::of(&[value; N], &[N as u64]).unwrap(), &all())
}

fn numbers(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

/// The number that all elements are.
fn the_one(array: &Reference) -> f64 {
    let found = numbers(&array.get(&all()).unwrap().1);
    assert!(found.iter().all(|x| *x == found[0]), "an array that is half one and half another");
    found[0]
}

fn sum(client: &Client, tag: &str, array: &Reference) -> f64 {
    let said = client.call("look", vec![tag.into(), 0i64.into(), Arg::from(array)], None).unwrap();
    match said[..] {
        [Value::Scalar(sum)] => sum.as_f64().unwrap(),
        _ => panic!("{said:?}"),
    }
}

#[test]
fn a_server_has_nothing_to_do_with_puts_and_gets_on_its_host() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    let x = put(&client, 1.0);
    if crate::SHARED_MEMORY {
        server.signal(Signal::STOP);
    }
    fill(&x, 2.0).unwrap();
    assert_eq!(the_one(&x), 2.0);
    server.signal(Signal::CONT);
    assert_eq!(sum(&client, "after", &x), 2.0 * N as f64);
}

/// Of an array of that shape, row by row: the numbers of a part, which go to `each`.
fn visit(shape: &[u64], part: &Selection, mut each: impl FnMut(usize)) {
    let part = part.resolve(&Shape::new(shape).unwrap()).unwrap();
    let part = Strided::part(&ArrayMeta::new(DType::F64, Shape::new(shape).unwrap()), &part).unwrap();
    let mut at = Vec::new();
    part.each_row(0..part.bytes(), |from, stride, count, run, _| {
        (0..count).for_each(|i| {
            let run_begins = (from + i as isize * stride) as usize / 8;
            at.extend(run_begins..run_begins + run / 8);
        });
    });
    at.into_iter().for_each(&mut each);
}

/// Numbers of an array of that shape that come in that order, row by row.
fn row_major(order: Order, shape: &[u64], came: &[f64]) -> Vec<f64> {
    if order == Order::C {
        return came.to_vec();
    }
    let [a, b, c] = [shape[0] as usize, shape[1] as usize, shape[2] as usize];
    (0..came.len()).map(|i| came[i / (b * c) + i / c % b * a + i % c * a * b]).collect()
}

#[test]
fn they_keep_every_layout_in_which_they_are_written_and_read() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let (shape, n) = ([40, 30, 60], 72_000);
    let grid: Vec<f64> = (0..n).map(f64::from).collect();
    for order in [Order::C, Order::F] {
        let meta = ArrayMeta { dtype: DType::F64, shape: Shape::new(&shape).unwrap(), order };
        let a = client.array(meta, On::Any).unwrap();
        let get = |part: &Selection| {
            let (meta, bytes) = a.get(part).unwrap();
            row_major(meta.order, meta.shape.extents(), &numbers(&bytes))
        };
        a.put(View::of(&grid, &shape).unwrap(), &all()).unwrap();
        assert!(get(&all()) == grid, "{order:?}");
        let mut expected = grid.clone();
        // Of unlike strides, and one that lies together.
        for (text, part_shape) in [("3:33:3,:,10:50", [10, 30, 40]), ("7:11,:,:", [4, 30, 60])] {
            let part = Selection::parse(text, &meta.shape).unwrap();
            let count: u64 = part_shape.iter().product();
            let new: Vec<f64> = (0..count).map(|i| -(i as f64) - 1.0).collect();
            for data_order in [Order::C, Order::F] {
                let mut view = View::of(&new, &part_shape).unwrap();
                if data_order == Order::F {
                    view = view.column_major();
                }
                a.put(view, &part).unwrap();
                let mut rows = row_major(data_order, &part_shape, &new).into_iter();
                visit(&shape, &part, |at| expected[at] = rows.next().unwrap());
                assert!(get(&all()) == expected, "{order:?} {text} {data_order:?}");
                assert!(get(&part) == row_major(data_order, &part_shape, &new), "{order:?} {text}");
            }
        }
        // From and into every second number of something larger, and with the first index running fastest.
        let wide: Vec<f64> = (0..2 * n).map(f64::from).collect();
        let strides = [30 * 60 * 16, 60 * 16, 16];
        let bytes: &[u8] = bytemuck_of(&wide);
        a.put(View::strided(DType::F64, meta.shape, &strides, 0, bytes).unwrap(), &all()).unwrap();
        let evens: Vec<f64> = (0..n).map(|i| f64::from(2 * i)).collect();
        assert!(get(&all()) == evens, "{order:?}");
        let mut into = vec![0u8; 16 * n as usize];
        let apart = Strided::new(8, 8, meta.shape, &strides, into.len() as u64).unwrap();
        a.read(&all(), &ArrayMeta { order: Order::C, ..meta }, Some(&apart), &mut into).unwrap();
        let came = numbers(&into);
        assert!(came.chunks(2).zip(&evens).all(|(pair, even)| pair == [0.0, *even]), "{order:?}");
        let mut columns = vec![0u8; 8 * n as usize];
        a.read(&all(), &ArrayMeta { order: Order::F, ..meta }, None, &mut columns).unwrap();
        assert!(row_major(Order::F, &shape, &numbers(&columns)) == evens, "{order:?}");
    }
}

fn bytemuck_of(numbers: &[f64]) -> &[u8] {
    match Arg::from(numbers) {
        Arg::In(_, bytes) => bytes,
        _ => unreachable!("numbers are an array that is only read"),
    }
}

#[test]
fn a_put_waits_for_calls_that_read_the_array_and_a_get_for_calls_that_write_it() {
    let world = World::new();
    let _server = world.server("one", 4);
    let client = world.client();
    let x = put(&client, 1.0);
    let mut look =
        client.call_async("look", vec!["first".into(), 300i64.into(), Arg::from(&x)], None).unwrap();
    until("it began", || world.log().iter().any(|l| l.ends_with(" first")));
    // Who only reads it, too, does so beside it.
    assert_eq!(the_one(&x), 1.0);
    assert!(!look.done(), "it has been waited for");
    fill(&x, 3.0).unwrap();
    assert_eq!(look.wait(None).unwrap(), [Value::Scalar(Scalar::from(N as f64))]);
    assert_eq!(the_one(&x), 3.0);
    for i in 1..=50 {
        let args = vec![1.0.into(), 1.0.into(), Arg::from(&x)];
        let mut write = client.call_async("affine", args, None).unwrap();
        assert_eq!(the_one(&x), 3.0 + f64::from(i));
        write.wait(None).unwrap();
        let args = vec![1.0.into(), 0.0.into(), Arg::from(&x)];
        // Given up, perhaps while it runs.
        drop(client.call_async("affine", args, None).unwrap());
        fill(&x, 3.0 + f64::from(i)).unwrap();
    }
}

#[test]
fn threads_that_put_get_and_call_at_the_same_time_find_whole_arrays() {
    let world = World::new();
    let _server = world.server("one", 2);
    let client = world.client();
    let x = put(&client, 0.0);
    std::thread::scope(|scope| {
        for value in [1.0, 2.0] {
            let x = &x;
            scope.spawn(move || (0..150).for_each(|_| fill(x, value).unwrap()));
        }
        scope.spawn(|| (0..150).for_each(|_| assert!([0.0, 1.0, 2.0].contains(&the_one(&x)))));
        scope.spawn(|| {
            for _ in 0..150 {
                let found = sum(&client, "t", &x) / N as f64;
                assert!([0.0, 1.0, 2.0].contains(&found), "{found}");
                client.call("affine", vec![1.0.into(), 0.0.into(), Arg::from(&x)], None).unwrap();
            }
        });
    });
}

#[test]
fn an_array_that_is_killed_while_threads_write_it_spoils_no_other() {
    let world = World::new();
    let _server = world.server("one", 2);
    let client = world.client();
    for _ in 0..30 {
        let (x, began) = (put(&client, 7.0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let e = loop {
                        let done = fill(&x, 7.0);
                        began.store(true, Ordering::Relaxed);
                        if let Err(e) = done {
                            break e;
                        }
                    };
                    assert!(matches!(e.code(), Code::Closed | Code::NotFound), "{e}");
                });
            }
            until("they write", || began.load(Ordering::Relaxed));
            x.kill().unwrap();
            // In the same memory, most likely.
            let next = client.array(flat(N), On::Any).unwrap();
            (0..3).for_each(|_| assert_eq!(the_one(&next), 0.0));
            assert_eq!(sum(&client, "next", &next), 0.0);
        });
    }
}

/// MiB of shared memory that a process has touched and that are there.
fn resident(pid: i64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let (_, rest) = status.split_once("RssShmem:").unwrap();
    rest.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn the_memory_of_killed_ones_goes_back_though_a_small_one_stays() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    let stays = put(&client, 1.0);
    let before = resident(server.pid());
    let large = client.array(flat(8 << 20), On::Any).unwrap();
    assert!(resident(server.pid()) >= before + 60, "it was taken");
    large.kill().unwrap();
    let since = Instant::now();
    while resident(server.pid()) > before + 8 {
        assert!(since.elapsed() < Duration::from_secs(30), "the end of its use");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(the_one(&stays), 1.0);
    let again = client.array(flat(8 << 20), On::Any).unwrap();
    assert!(numbers(&again.get(&all()).unwrap().1).iter().all(|x| *x == 0.0));
}

#[test]
fn a_lost_server_takes_them_along_whoever_sees_their_memory() {
    let world = World::new();
    let server = world.server("one", 1);
    let client = world.client();
    let x = put(&client, 1.0);
    assert_eq!(the_one(&x), 1.0);
    server.signal(Signal::KILL);
    until("it is known", || x.get(&all()).is_err());
    for e in [x.get(&all()).unwrap_err(), fill(&x, 2.0).unwrap_err()] {
        assert_eq!(e.code(), Code::ServerLost, "{e}");
    }
    let _other = world.server("two", 1);
    assert_eq!(the_one(&put(&client, 4.0)), 4.0);
}
