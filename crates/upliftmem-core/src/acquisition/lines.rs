//! An upper line for what one comparison can gain.
//!
//! F(more) = f(resolved + more) - f(resolved) is convex until `resolved + more` reaches the squared margin and
//! concave after. Wherever a probe lands on [0, most], F lies under the supporting line of its concave envelope;
//! where the line touches decides only how tight the bound is.

use crate::evsi::{decision_slope, decision_value};

/// `intercept + slope * more` is at least F(more) for every `more` in the range it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Line {
    pub(crate) intercept: f64,
    pub(crate) slope: f64,
}

/// F and its derivative.
struct Gain {
    resolved: f64,
    margin: f64,
    value: f64,
}

impl Gain {
    #[inline(always)]
    fn at(&self, more: f64) -> f64 {
        decision_value(self.resolved + more, self.margin) - self.value
    }

    #[inline(always)]
    fn slope(&self, more: f64) -> f64 {
        decision_slope(self.resolved + more, self.margin)
    }

    #[inline(always)]
    fn tangent(&self, more: f64) -> Line {
        let slope = self.slope(more);
        Line {
            intercept: self.at(more) - more * slope,
            slope,
        }
    }

    #[inline(always)]
    fn chord(&self, most: f64) -> Line {
        Line {
            intercept: 0.0,
            slope: self.at(most).max(0.0) / most,
        }
    }
}

/// The upper line for `more` in [0, most] that is tightest near `typical`.
///
/// `value` is f(resolved) as the caller's loops computed it.
#[inline(always)]
pub(crate) fn upper_line(resolved: f64, margin: f64, value: f64, most: f64, typical: f64) -> Line {
    if most <= 0.0 {
        return Line::default();
    }
    let gain = Gain {
        resolved,
        margin,
        value,
    };
    let inflection = margin * margin - resolved;
    let typical = typical.clamp(1e-9 * most, most);
    if inflection <= 0.0 {
        return gain.tangent(typical);
    }
    if inflection >= most {
        return gain.chord(most);
    }
    // A tangent beyond the inflection that starts at or above zero covers the convex part too: there F lies
    // under its own chord from the origin, and the line is above both ends of that chord.
    if typical > inflection {
        let line = gain.tangent(typical);
        if line.intercept >= 0.0 {
            return line;
        }
    }
    let last = gain.tangent(most);
    if last.intercept < 0.0 {
        return gain.chord(most);
    }
    let (mut low, mut high, mut best) = (typical.max(inflection), most, last);
    for _ in 0..12 {
        let middle = 0.5 * (low + high);
        let line = gain.tangent(middle);
        if line.intercept >= 0.0 {
            (high, best) = (middle, line);
        } else {
            low = middle;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_line_is_never_below_the_gain(
            resolved in prop_oneof![Just(0.0), 0.0..2.0_f64],
            margin in prop_oneof![Just(0.0), 0.0..2.0_f64, 0.0..1e-3_f64],
            most in prop_oneof![1e-12..1e-6_f64, 1e-6..3.0_f64],
            typical in 0.0..1.0_f64,
        ) {
            let value = decision_value(resolved, margin);
            let line = upper_line(resolved, margin, value, most, typical * most);
            prop_assert!(line.slope >= 0.0);
            for step in 0..=200 {
                let more = most * f64::from(step) / 200.0;
                let gain = decision_value(resolved + more, margin) - value;
                let bound = line.intercept + line.slope * more;
                prop_assert!(bound >= gain - 1e-14, "{bound} < {gain} at {more}");
            }
        }
    }

    #[test]
    fn nothing_left_to_resolve_gains_nothing() {
        assert_eq!(upper_line(0.5, 0.1, 0.2, 0.0, 0.0), Line::default());
    }
}
