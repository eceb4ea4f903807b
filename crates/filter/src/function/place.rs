//! Places on earth.

use super::number::float;
use crate::compare::finite;
use crate::value::Value;

/// Metres from the middle of the earth to its surface, in the mean.
const RADIUS_M: f64 = 6_371_008.8;

fn numbers<const COUNT: usize>(values: &[Value<'_>]) -> Option<[f64; COUNT]> {
    let mut numbers = [0.0; COUNT];
    for (number, value) in numbers.iter_mut().zip(values) {
        *number = float(value.first_number())?;
    }
    Some(numbers)
}

/// Along a great circle, by haversines.
pub(super) fn distance(values: &[Value<'_>]) -> Value<'static> {
    let Some(degrees) = numbers::<4>(values) else { return Value::Null };
    let [from_lat, from_lon, to_lat, to_lon] = degrees.map(f64::to_radians);
    let half_sine = |angle: f64| libm::pow(libm::sin(angle / 2.0), 2.0);
    let haversine =
        half_sine(to_lat - from_lat) + libm::cos(from_lat) * libm::cos(to_lat) * half_sine(to_lon - from_lon);
    finite(2.0 * RADIUS_M * libm::asin(libm::sqrt(haversine.clamp(0.0, 1.0))))
}

/// A box may go over the 180th meridian: then its west is greater than its east.
pub(super) fn is_within(values: &[Value<'_>]) -> Value<'static> {
    let Some([lat, lon, south, west, north, east]) = numbers::<6>(values) else { return Value::Null };
    let is_between = match west <= east {
        true => (west..=east).contains(&lon),
        false => lon >= west || lon <= east,
    };
    Value::Bool((south..=north).contains(&lat) && is_between)
}
