//! Which files a shard takes, and how long what is left will take.

use super::ids::Shard;
use super::moment::Secs;

/// What a file without history weighs among files that have one: their median, else one second each.
fn weight_of_unknown(known: &mut [Secs]) -> Secs {
    super::history::median(known).unwrap_or(Secs::from_secs(1))
}

/// The positions (in plan order) that `shard` takes. The heaviest file goes to the lightest share, ties to the earlier name and the
/// earlier share, so every machine with the same history comes to the same shares, and every file is in exactly one.
pub fn share(names: &[&str], expected: &[Option<Secs>], shard: Shard) -> Vec<usize> {
    let unknown = weight_of_unknown(&mut expected.iter().copied().flatten().collect::<Vec<_>>());
    let weight = |position: usize| expected.get(position).copied().flatten().unwrap_or(unknown);
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|a, b| weight(*b).cmp(&weight(*a)).then_with(|| names[*a].cmp(names[*b])).then(a.cmp(b)));
    let mut loads = vec![(Secs::ZERO, 0_usize); usize::try_from(shard.count).unwrap_or(1)];
    let mut mine = Vec::new();
    for position in order {
        let lightest = (0..loads.len()).min_by_key(|share| (loads[*share], *share)).unwrap_or(0);
        loads[lightest].0 = loads[lightest].0.saturating_add(weight(position));
        loads[lightest].1 += 1;
        if lightest + 1 == usize::try_from(shard.index).unwrap_or(usize::MAX) {
            mine.push(position);
        }
    }
    mine.sort_unstable();
    mine
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shard(index: u32, count: u32) -> Shard {
        Shard { index, count }
    }

    #[test]
    fn shares_are_balanced_and_keep_the_order_of_the_plan() {
        let names = ["a", "b", "c", "d"];
        let seconds = [10, 300, 100, 200].map(|s| Some(Secs::from_secs(s)));
        assert_eq!(share(&names, &seconds, shard(1, 2)), [0, 1]);
        assert_eq!(share(&names, &seconds, shard(2, 2)), [2, 3]);
    }

    proptest! {
        #[test]
        fn every_file_is_in_exactly_one_share(weights in prop::collection::vec(prop::option::of(0_u64..1000), 0..40), count in 1_u32..9) {
            let names: Vec<String> = (0..weights.len()).map(|n| format!("f{n}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let weights: Vec<Option<Secs>> = weights.iter().map(|weight| weight.map(Secs::from_secs)).collect();
            let mut all: Vec<usize> = (1..=count).flat_map(|index| share(&names, &weights, shard(index, count))).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..names.len()).collect::<Vec<_>>());
        }
    }
}
