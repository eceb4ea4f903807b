//! Fields of FIX whose values may hold any byte: the field before each tells its length.

/// The tag of the length, and that of the data behind it: all of FIX 4.0 to 5.0 SP2 and FIXT 1.1, by the former.
const PAIRS: [(u32, u32); 83] = [
    (90, 91),
    (93, 89),
    (95, 96),
    (212, 213),
    (348, 349),
    (350, 351),
    (352, 353),
    (354, 355),
    (356, 357),
    (358, 359),
    (360, 361),
    (362, 363),
    (364, 365),
    (445, 446),
    (618, 619),
    (621, 622),
    (1184, 1185),
    (1277, 1278),
    (1280, 1281),
    (1282, 1283),
    (1397, 1398),
    (1401, 1402),
    (1403, 1404),
    (1468, 1469),
    (1525, 1527),
    (1578, 1579),
    (1620, 1621),
    (1664, 1665),
    (1678, 1697),
    (1733, 1734),
    (1871, 1872),
    (1874, 1875),
    (2072, 2073),
    (2074, 2075),
    (2111, 2112),
    (2179, 2180),
    (2287, 2288),
    (2351, 2352),
    (2372, 2371),
    (2481, 2482),
    (2494, 2493),
    (2522, 2521),
    (2637, 2638),
    (2651, 2652),
    (2665, 2666),
    (2715, 2716),
    (2718, 2719),
    (2721, 2722),
    (2797, 2798),
    (2802, 2801),
    (2809, 2808),
    (2815, 2814),
    (40004, 40005),
    (40008, 40009),
    (40978, 40979),
    (40980, 40981),
    (40982, 40983),
    (40984, 40985),
    (40986, 40987),
    (40988, 40989),
    (41083, 41084),
    (41101, 41102),
    (41107, 41108),
    (41256, 41257),
    (41320, 41321),
    (41324, 41325),
    (41458, 41459),
    (41476, 41477),
    (41482, 41483),
    (41653, 41654),
    (41710, 41711),
    (41806, 41807),
    (41811, 41812),
    (41873, 41874),
    (41969, 41970),
    (42025, 42026),
    (42171, 42172),
    (42451, 42452),
    (42652, 42653),
    (42947, 42948),
    (43109, 42684),
    (43110, 42486),
    (43111, 42982),
];

/// A bit for the rest of each tag of a length: few other tags share one.
const RESTS: [u64; 16] = {
    let mut rests = [0; 16];
    let mut place = 0;
    while place < PAIRS.len() {
        let rest = PAIRS[place].0 as usize % 1024;
        rests[rest / 64] |= 1 << (rest % 64);
        place += 1;
    }
    rests
};

/// The tag of the data behind a length; none if the tag is none of a length.
#[inline]
pub(super) fn tag_behind(tag: u32) -> Option<u32> {
    let rest = tag as usize % 1024;
    if RESTS[rest / 64] >> (rest % 64) & 1 == 0 {
        return None;
    }
    PAIRS.binary_search_by_key(&tag, |pair| pair.0).ok().map(|place| PAIRS[place].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_in_order_and_tell_their_data() {
        assert!(PAIRS.is_sorted_by(|left, right| left.0 < right.0));
        for (tag, data) in [(95, Some(96)), (93, Some(89)), (354, Some(355)), (43111, Some(42982))] {
            assert_eq!(tag_behind(tag), data, "{tag}");
        }
        for tag in [0, 9, 55, 89, 96, 383, 42982, u32::MAX] {
            assert_eq!(tag_behind(tag), None, "{tag}");
        }
    }
}
