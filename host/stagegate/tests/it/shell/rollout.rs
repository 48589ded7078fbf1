//! A whole rollout, and quiet after it.

use std::time::Duration;

use stagegate_api::Phase;

use super::world::{World, example};

#[tokio::test(start_paused = true)]
async fn the_three_stage_sample_completes_and_then_nothing_is_asked_or_written() {
    let _ = tracing_subscriber::fmt().with_env_filter(std::env::var("RUST_LOG").unwrap_or_default()).try_init();
    let world = World::start().await;
    for text in example("three-stages") {
        world.create(&text).await;
    }
    world.until_phase("nginx", Phase::Completed, Duration::from_secs(10)).await;
}
