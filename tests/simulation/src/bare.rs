//! A world in which only KubeStellar and the caller act; the caller also does the garbage collection. For tests of what
//! KubeStellar does alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::clusters::running::Status;
use crate::clusters::{Member, Report, Truth};
use crate::kubestellar::{Start, Task};
use crate::oracle::Violation;
use crate::queue::{Millis, timestamp};
use crate::script::Script;
use crate::server::{Cluster, Content, Resource, Workload};
use crate::world::World;

impl World {
    /// The seed says what is seen first where that is open.
    #[must_use]
    pub fn bare(seed: u64) -> Self {
        let mut world = Self::empty(Script::bare(seed), false);
        world.is_bare = true;
        world
    }

    /// Goes on to this time, makes a change, and lets everybody see it.
    ///
    /// # Errors
    /// When there is no end of events.
    pub fn change_at(&mut self, at: Millis, change: impl FnOnce(&mut Self)) -> Result<(), Violation> {
        self.run_until(at)?;
        self.server.counter.now = timestamp(self.queue.now());
        change(self);
        self.notify();
        Ok(())
    }

    pub fn add_cluster(&mut self, name: &str, labels: impl IntoIterator<Item = (String, String)>) {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.into_iter().collect()),
            ..ObjectMeta::default()
        };
        let cluster = Cluster {
            metadata,
            is_moved: false,
        };
        let _made = self.server.clusters.create(&mut self.server.counter, cluster);
        self.fleet.members.insert(name.to_owned(), Member::default());
    }

    pub fn add_deployment(&mut self, metadata: ObjectMeta, replicas: i64) {
        self.contents += 1;
        let workload = Workload {
            metadata,
            resource: Resource::Deployment,
            content: Content {
                id: self.contents,
                replicas,
                crashes: false,
                is_blocked: false,
                step_ms: 0,
                deadline_ms: 600_000,
                made_at: self.queue.now(),
                replaced: None,
                is_untimed: false,
            },
            edited_at: None,
        };
        let _made = self.server.workloads.create(&mut self.server.counter, workload);
    }

    pub fn set_replicas(&mut self, key: &str, replicas: i64) {
        self.contents += 1;
        let id = self.contents;
        let _edited = self
            .server
            .workloads
            .update(&mut self.server.counter, (key, None), |object| {
                object.content = Content {
                    id,
                    replicas,
                    ..object.content
                };
            });
    }

    /// A cluster reports on an object, or takes its report back.
    pub fn set_report(&mut self, (cluster, key): (&str, &str), status: Option<Status>) {
        let now = self.queue.now();
        let truth = Truth {
            at: now,
            content: 0,
            is_well: true,
            newest: 0,
            available: 0,
            has_failed: false,
            generation: 1,
            applied_until: now,
        };
        let report = status.map(|status| Report {
            status: Some(status),
            at: Some(timestamp(now).as_second()),
            truth,
        });
        let Some(member) = self.fleet.members.get_mut(cluster) else {
            return;
        };
        match report {
            Some(report) => drop(member.reports.insert(key.to_owned(), report)),
            None => drop(member.reports.remove(key)),
        }
        self.kubestellar_sees(Task::SeeReport(cluster.to_owned(), key.to_owned()));
    }

    pub fn restart_kubestellar(&mut self, down_ms: Millis) {
        let start = Start {
            down_ms,
            inventory_ms: 0,
            objects_ms: 0,
        };
        let planned = self.kubestellar.restart((start, self.queue.now()));
        self.plan_kubestellar(planned);
    }
}
