//! Stages, gates, hand-overs and what status says. Must not carry anything out.

mod gates;
mod order;
mod said;

use super::Plot;

pub const PLOTS: &[Plot] = &[
    gates::no_verdict,
    gates::never,
    gates::never_in_the_first_attempt,
    gates::wrong_config,
    gates::health,
    order::shared_cluster,
    order::reordered,
    order::taken_back,
    order::stripped,
    order::edited_before_kubestellar_is_away,
    order::taken_back_before_a_long_soak,
    order::taken_back_in_a_soak,
    order::stripped_before_kubestellar_is_away,
    order::appended,
    order::deleted,
    order::opened_by_hand,
    order::opened_by_hand_and_deleted,
    order::opened_by_hand_and_deleted,
    order::stale_view,
    order::stale_view,
    order::paused_meanwhile,
    said::given_up,
    said::job,
    said::hostile_names,
    said::crowd,
];
