//! A library in Rust that calls back into C, with threads and panics in between.
use std::panic;
use std::thread;

type Callback = extern "C" fn(i32) -> i32;

#[inline(never)]
fn deep(callback: Callback, depth: i32) -> i32 {
    if depth == 0 { callback(1) } else { deep(callback, depth - 1) + 1 }
}

#[no_mangle]
pub extern "C" fn run(callback: Callback) -> i32 {
    panic::set_hook(Box::new(|_| ()));
    let mut caught = 0;
    for i in 0..20 {
        let result = panic::catch_unwind(|| {
            deep(callback, 3);
            if i % 2 == 1 {
                panic!("odd");
            }
        });
        caught += result.is_err() as i32;
    }
    let threads: Vec<_> = (0..4).map(|i| thread::spawn(move || (0..1000).map(|j| i * j).sum::<i32>())).collect();
    let sum: i32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    caught * 100_000_000 + sum
}
