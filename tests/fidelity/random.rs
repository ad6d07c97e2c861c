//! Random versions and lists, hostile ones among them, the same for the same seed everywhere.

#[path = "../support/random.rs"]
mod splitmix;

pub use splitmix::Random;

pub const TAGS: [&str; 8] = ["+a", "+b", "+a.1", "+a.2", "+1", "+01", "+k3s1", "+x.2-y"];
pub const PRE_RELEASES: [&str; 4] = ["-rc.1", "-rc.2", "-alpha", "-0"];

/// One version near minor 30, hostile in one of `oddity`.
pub fn version(random: &mut Random, minor: usize, oddity: usize) -> String {
    let major = if random.once_in(oddity * 8) { 2 } else { 1 };
    let pre = if random.once_in(oddity) { random.pick(&PRE_RELEASES) } else { "" };
    let tag = if random.once_in(oddity) { random.pick(&TAGS) } else { "" };
    let plain = format!("{major}.{minor}.{}{pre}{tag}", random.below(3));
    match random.below(oddity * 12) {
        0 => plain,
        1 => format!(" v{plain}"),
        2 => format!("v0{plain}"),
        3 if pre.is_empty() && tag.is_empty() => format!("v{major}.{minor}"),
        4 => "latest".to_owned(),
        5 => format!("v{plain}_"),
        _ => format!("v{plain}"),
    }
}

/// An ascending list over some minors, with gaps, twins and twists.
pub fn list(random: &mut Random, oddity: usize) -> Vec<String> {
    let most = if random.once_in(50) { 90 } else { 8 };
    let (first, minors) = (28 + random.below(4), 1 + random.below(most));
    let mut list = Vec::new();
    for minor in first..first + minors {
        if random.once_in(oddity * 3) {
            continue;
        }
        for _ in 0..=random.below(3) {
            list.push(version(random, minor, oddity));
        }
    }
    if random.once_in(3) {
        list.sort();
    }
    list
}
