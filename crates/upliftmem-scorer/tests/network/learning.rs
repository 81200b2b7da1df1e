//! What the network learns of pairs.

use crate::world::{corpus, labels, value, warm_up};

#[test]
fn a_complementary_pair_is_found_though_each_member_harms() {
    let corpus = corpus(40, 8);
    let labels = labels(40, 400, |set| match set {
        [0] | [1] => -0.4,
        [0, 1] => 0.6,
        _ => 0.0,
    });
    let update = warm_up(&corpus, &labels, 100);
    for task in [0, 4, 8] {
        let found = [&[0][..], &[1], &[0, 1]].map(|set| value(&update.scorer, &corpus, task, set));
        assert!(
            found[0] < -0.1 && found[1] < -0.1 && found[2] > 0.25,
            "{found:?} {:?}",
            update.report
        );
    }
    let report = &update.report.published;
    assert!(
        report.error.unwrap() < 0.5 * report.error_of_zero.unwrap(),
        "{report:?}"
    );
    // Two labels of one set differ by noise alone: their order is a tie, and counts half.
    assert!(
        report.pair_accuracy.unwrap() > 0.8 && report.sign_accuracy.unwrap() > 0.8,
        "{report:?}"
    );
}

#[test]
fn a_conflicting_pair_is_avoided_though_each_member_helps() {
    let corpus = corpus(40, 8);
    let labels = labels(40, 400, |set| match set {
        [0] | [1] => 0.4,
        [0, 1] => -0.6,
        _ => 0.0,
    });
    let update = warm_up(&corpus, &labels, 100);
    let found = [&[0][..], &[1], &[0, 1]].map(|set| value(&update.scorer, &corpus, 0, set));
    assert!(
        found[0] > 0.15 && found[1] > 0.15 && found[2] < -0.2,
        "{found:?} {:?}",
        update.report
    );
}

#[test]
fn a_redundant_pair_is_worth_no_more_than_one_of_it() {
    let corpus = corpus(40, 8);
    let labels = labels(40, 400, |set| match set {
        [0] | [1] | [0, 1] => 0.4,
        _ => 0.0,
    });
    let update = warm_up(&corpus, &labels, 100);
    let one = value(&update.scorer, &corpus, 0, &[0]);
    let both = value(&update.scorer, &corpus, 0, &[0, 1]);
    assert!(one > 0.2, "{one}");
    assert!((both - one).abs() < 0.15, "{both} is far from {one}");
}
