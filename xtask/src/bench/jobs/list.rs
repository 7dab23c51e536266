//! The table of jobs.

use std::time::Duration;

use super::{Goal, Job, Objects, Scale, Server};
use crate::bench::checks::{
    count_is_children_read, count_is_events, count_is_half_of_size_times_repeats, count_is_size,
    count_is_size_times_events, count_is_size_times_repeats, count_is_ten_times_size,
    each_half_for_one_and_for_all_handlers, hundred_hits_per_lookup, ten_adds_per_key,
};

/// A work queue job; the entries below override what differs.
const WORKQUEUE: Job = Job {
    name: "",
    about: "",
    task: "",
    server: Server::None,
    contestants: &["steersman", "client-go"],
    workers: 4,
    full: Scale::of(&[1_000, 10_000, 100_000, 1_000_000]),
    quick: Scale::of(&[1_000, 100_000]),
    costs: &["ns_per_item"],
    goals: &[
        Goal::times("steersman", "ns_per_item", 0.5, "client-go"),
        Goal::growth_of("steersman", "ns_per_item", "client-go"),
    ],
    check: count_is_size_times_repeats,
    time_limit: Duration::from_secs(120),
};

/// A job on a cache of Pods, which is filled from the replay; the entries below override what
/// differs.
const CACHE: Job = Job {
    name: "",
    about: "",
    task: "",
    server: Server::Replay,
    contestants: &["steersman", "client-go", "kube-rs"],
    workers: 1,
    full: Scale::of(&[20_000]),
    quick: Scale::of(&[5_000]),
    costs: &["cpu_s", "wall_s"],
    goals: &[],
    check: count_is_size,
    time_limit: Duration::from_secs(120),
};

/// A job of controllers, which need the replay or a real server; the entries below override what
/// differs.
const CONTROLLER: Job = Job {
    name: "",
    about: "",
    task: "",
    server: Server::Replay,
    contestants: &["steersman", "controller-runtime", "kube-rs"],
    workers: 1,
    full: Scale::of(&[1]),
    quick: Scale::of(&[1]),
    costs: &["wall_s"],
    goals: &[],
    check: count_is_size,
    time_limit: Duration::from_secs(180),
};

/// An API server job; the entries below override what differs. Each run starts a server of its own.
const APISERVER: Job = Job {
    name: "",
    about: "",
    task: "",
    server: Server::None,
    contestants: &["steersman", "kube-apiserver"],
    workers: 16,
    full: Scale::of(&[10_000]),
    quick: Scale::of(&[1_000]),
    costs: &["wall_s"],
    goals: &[],
    check: count_is_size,
    time_limit: Duration::from_secs(240),
};

/// Every job.
pub(crate) const JOBS: &[Job] = &[
    Job {
        name: "sync",
        about: "Pods in a cache, each handed to a worker once",
        task: "sync",
        server: Server::Replay,
        contestants: &["client-go", "controller-runtime"],
        workers: 4,
        full: Scale::of(&[20_000]),
        quick: Scale::of(&[5_000]),
        costs: &["wall_s", "rss_mb"],
        goals: &[],
        check: count_is_size,
        time_limit: Duration::from_secs(120),
    },
    Job {
        name: "watch",
        about: "MODIFIED events of a watch that come as fast as they are taken; the first list is not measured",
        task: "watch",
        server: Server::Replay,
        contestants: &["client-go", "controller-runtime"],
        workers: 4,
        full: Scale::of(&[10_000]).with_events(30_000),
        quick: Scale::of(&[1_000]).with_events(5_000),
        costs: &["wall_s", "cpu_s"],
        goals: &[],
        check: count_is_events,
        time_limit: Duration::from_secs(180),
    },
    Job {
        name: "cache-sync",
        about: "Pods in a cache, each passed to a handler that counts them; curl only downloads the list",
        task: "cache-sync",
        contestants: &["steersman", "client-go", "kube-rs", "curl"],
        costs: &["cpu_s", "wall_s", "rss_mb"],
        goals: &[
            Goal::times("steersman", "cpu_s", 0.2, "kube-rs"),
            Goal::times("steersman", "cpu_s", 0.05, "client-go"),
            Goal::times("steersman", "wall_s", 5.0, "curl"),
        ],
        ..CACHE
    },
    Job {
        name: "cache-sync-diverse",
        about: "the same with Pods of 300 different workloads, on which figures of memory are honest",
        task: "cache-sync",
        contestants: &["steersman", "steersman-compressed", "client-go", "kube-rs"],
        full: CACHE.full.with_objects(Objects::DiversePods),
        quick: CACHE.quick.with_objects(Objects::DiversePods),
        costs: &["rss_mb", "cpu_s", "wall_s"],
        goals: &[
            Goal::times("steersman", "rss_mb", 1.0 / 3.0, "client-go"),
            Goal::times("steersman-compressed", "rss_mb", 0.1, "client-go"),
        ],
        ..CACHE
    },
    Job {
        name: "cache-sync-growth",
        about: "the same with ten times as many Pods: what a Pod costs should stay the same",
        task: "cache-sync",
        contestants: &["steersman"],
        full: Scale::of(&[10_000, 30_000, 100_000]),
        quick: Scale::of(&[5_000, 50_000]),
        goals: &[Goal::flat("steersman", "cpu_s", 1.2)],
        ..CACHE
    },
    Job {
        name: "cache-watch",
        about: "MODIFIED events as fast as they are taken, passed to a handler that counts them; the first list is not measured",
        task: "cache-watch",
        full: Scale::of(&[20_000]).with_events(50_000),
        quick: Scale::of(&[1_000]).with_events(5_000),
        costs: &["wall_s", "cpu_s"],
        goals: &[
            Goal::times("steersman", "wall_s", 0.2, "kube-rs"),
            Goal::times("steersman", "wall_s", 0.04, "client-go"),
            Goal::times("steersman", "cpu_s", 0.2, "kube-rs"),
        ],
        check: count_is_events,
        time_limit: Duration::from_secs(180),
        ..CACHE
    },
    Job {
        name: "cache-read-all",
        about: "every Pod of a cache listed, and a field of its spec read through its type, once",
        task: "cache-read-all",
        contestants: &["steersman", "steersman-decoded", "client-go", "kube-rs"],
        costs: &["ns_per_read"],
        goals: &[
            Goal::value("steersman", "ns_per_read", 30_000.0),
            Goal::value("steersman-decoded", "ns_per_read", 200.0),
        ],
        ..CACHE
    },
    Job {
        name: "cache-read-children",
        about: "the 100 Pods of one owner listed 1,000 times, and a field of the spec of each read through its type",
        task: "cache-read-children",
        costs: &["ns_per_read"],
        goals: &[Goal::times("steersman", "ns_per_read", 2.0, "client-go")],
        check: count_is_children_read,
        ..CACHE
    },
    Job {
        name: "cache-index",
        about: "the 100 Pods of one owner after the other asked for, back to back, while updates arrive",
        task: "cache-index",
        full: Scale::of(&[100_000]).with_events(50_000).at_rate(5_000).with_window(10),
        quick: Scale::of(&[10_000]).with_events(15_000).at_rate(5_000).with_window(3),
        costs: &["us_per_lookup", "p50_us", "p99_us"],
        goals: &[
            Goal::times("steersman", "us_per_lookup", 1.0, "client-go"),
            Goal::times("steersman", "p50_us", 1.0, "client-go"),
        ],
        check: hundred_hits_per_lookup,
        time_limit: Duration::from_secs(300),
        ..CACHE
    },
    Job {
        name: "cache-handlers",
        about: "half of the MODIFIED events passed to 10 handlers of one informer; the other half came before, when it had one",
        task: "cache-handlers",
        contestants: &["steersman", "client-go"],
        workers: 10,
        full: Scale::of(&[10_000]).with_events(100_000),
        quick: Scale::of(&[1_000]).with_events(10_000),
        costs: &["cpu_s", "wall_s", "times_of_one"],
        goals: &[Goal::value("steersman", "times_of_one", 1.5)],
        check: each_half_for_one_and_for_all_handlers,
        time_limit: Duration::from_secs(240),
        ..CACHE
    },
    Job {
        name: "cache-memory",
        about: "how large a cache gets while everything is listed again, in times of what it was: one Pod in 100 changed, or all; and \
                after 1,000,000 updates of 1,000 Pods, in times of what it was after 100,000",
        task: "cache-memory",
        server: Server::None,
        contestants: &["steersman"],
        full: Scale::of(&[100_000]),
        quick: Scale::of(&[20_000]),
        costs: &["relist_few_x", "relist_all_x", "updates_x"],
        goals: &[
            Goal::value("steersman", "relist_few_x", 1.3),
            Goal::value("steersman", "relist_all_x", 2.1),
            Goal::value("steersman", "updates_x", 1.05),
        ],
        time_limit: Duration::from_secs(300),
        ..CACHE
    },
    Job {
        name: "reconcile",
        about: "Pods listed, and each reconciled once with a read from the cache: as its type, or three fields of it",
        task: "reconcile",
        contestants: &["steersman", "steersman-view", "controller-runtime", "kube-rs"],
        workers: 4,
        full: Scale::of(&[20_000]),
        quick: Scale::of(&[5_000]),
        costs: &["cpu_s", "wall_s", "rss_mb"],
        goals: &[
            Goal::times("steersman", "cpu_s", 1.0 / 2.0, "kube-rs"),
            Goal::times("steersman-view", "cpu_s", 1.0 / 3.0, "kube-rs"),
            Goal::times("steersman", "cpu_s", 0.1, "controller-runtime"),
        ],
        ..CONTROLLER
    },
    Job {
        name: "reconcile-own",
        about: "from the last byte of an event read to its reconcile entered: what the framework itself takes",
        task: "reconcile-own",
        contestants: &["steersman"],
        workers: 4,
        // Every Pod is changed once, so that no event is merged into another.
        full: Scale::of(&[10_000]).with_events(10_000).at_rate(1_000),
        quick: Scale::of(&[3_000]).with_events(3_000).at_rate(1_000),
        costs: &["p99_us", "p50_us"],
        goals: &[Goal::value("steersman", "p99_us", 100.0)],
        check: count_is_events,
        ..CONTROLLER
    },
    Job {
        name: "reconcile-noop",
        about: "keys of cached objects sent through a channel, each reconciled by 4 workers that do nothing",
        task: "reconcile-noop",
        workers: 4,
        full: Scale::of(&[100_000]).with_objects(Objects::Small(1)),
        quick: Scale::of(&[10_000]).with_objects(Objects::Small(1)),
        costs: &["ns_per_reconcile", "cpu_s"],
        goals: &[
            Goal::times("steersman", "ns_per_reconcile", 1.0 / 3.0, "controller-runtime"),
            Goal::times("steersman", "ns_per_reconcile", 1.0 / 3.0, "kube-rs"),
        ],
        check: count_is_size_times_repeats,
        ..CONTROLLER
    },
    Job {
        name: "latency",
        about: "from the start of a write to the start of the reconcile that sees it, on a real server",
        task: "latency",
        server: Server::Real,
        full: Scale::of(&[1_000]),
        quick: Scale::of(&[300]),
        costs: &["p50_us", "p99_us"],
        goals: &[Goal::times("steersman", "p50_us", 1.0, "controller-runtime")],
        ..CONTROLLER
    },
    Job {
        name: "start",
        about: "from the start of the process to its first reconcile, of a namespace, on a real server",
        task: "start",
        server: Server::Real,
        goals: &[
            Goal::times("steersman", "wall_s", 1.0, "controller-runtime"),
            Goal::times("steersman", "wall_s", 1.0, "kube-rs"),
        ],
        ..CONTROLLER
    },
    Job {
        name: "idle",
        about: "a manager at rest with 10 controllers of 10 kinds, which have reconciled that number of small objects each",
        task: "idle",
        full: Scale::of(&[1_000]).with_objects(Objects::Small(10)),
        quick: Scale::of(&[1_000]).with_objects(Objects::Small(10)),
        costs: &["rss_mb", "peak_mb"],
        goals: &[Goal::times("steersman", "rss_mb", 1.0 / 3.0, "controller-runtime")],
        check: count_is_ten_times_size,
        ..CONTROLLER
    },
    Job {
        name: "clients-get",
        about: "one ConfigMap read again and again, one read after the other, on a real server; processor time is the client's",
        task: "clients-get",
        server: Server::Real,
        contestants: &["steersman", "client-go", "kube-rs"],
        workers: 1,
        full: Scale::of(&[1_000]),
        quick: Scale::of(&[200]),
        costs: &["cpu_s", "wall_s"],
        goals: &[],
        check: count_is_size,
        time_limit: Duration::from_secs(120),
    },
    Job {
        name: "wire",
        about: "a list of Pods split into items, metadata read, managedFields left out; one thread, from memory",
        task: "wire",
        server: Server::None,
        contestants: &["steersman", "steersman-protobuf", "byte-loop", "serde_json-value", "serde_json-typed"],
        workers: 1,
        full: Scale::of(&[20_000]),
        quick: Scale::of(&[5_000]),
        costs: &["ns_per_item", "peak_mb"],
        goals: &[],
        check: count_is_size_times_repeats,
        time_limit: Duration::from_secs(120),
    },
    Job {
        name: "workqueue-together-1",
        about: "distinct keys added while 1 worker takes them: get, forget, done",
        task: "workqueue-together",
        workers: 1,
        ..WORKQUEUE
    },
    Job {
        name: "workqueue-together-4",
        about: "distinct keys added while 4 workers take them: get, forget, done",
        task: "workqueue-together",
        ..WORKQUEUE
    },
    Job {
        name: "workqueue-queued-1",
        about: "distinct keys all added first, then taken by 1 worker",
        task: "workqueue-queued",
        workers: 1,
        ..WORKQUEUE
    },
    Job {
        name: "workqueue-queued-4",
        about: "distinct keys all added first, then taken by 4 workers",
        task: "workqueue-queued",
        ..WORKQUEUE
    },
    Job {
        name: "workqueue-dedup-4",
        about: "every key added 10 times in a row while 4 workers take them; the cost is that of an add",
        task: "workqueue-dedup",
        full: Scale::of(&[100_000]),
        quick: Scale::of(&[100_000]),
        check: ten_adds_per_key,
        ..WORKQUEUE
    },
    Job {
        name: "workqueue-delay",
        about: "keys added with delays that are spread over a window, taken by 4 workers",
        task: "workqueue-delay",
        full: Scale::of(&[1_000_000]).with_window(60),
        quick: Scale::of(&[50_000]).with_window(5),
        costs: &["cpu_s", "bytes_per_key"],
        goals: &[Goal::times("steersman", "cpu_s", 0.2, "client-go"), Goal::value("steersman", "bytes_per_key", 150.0)],
        check: count_is_size,
        time_limit: Duration::from_secs(240),
        ..WORKQUEUE
    },
    Job {
        name: "workqueue-priority-4",
        about: "distinct keys added while 4 workers take them, every other one with a low priority; the peer is controller-runtime's priority queue",
        task: "workqueue-priority",
        contestants: &["steersman", "controller-runtime"],
        goals: &[
            Goal::times("steersman", "ns_per_item", 0.5, "controller-runtime"),
            Goal::growth_of("steersman", "ns_per_item", "controller-runtime"),
        ],
        ..WORKQUEUE
    },
    Job {
        name: "workqueue-ratelimit",
        about: "the exponential limiter alone: 5 failures of every key, half of the keys forgotten; the cost is that of a failure",
        task: "workqueue-ratelimit",
        workers: 1,
        full: Scale::of(&[100_000]),
        quick: Scale::of(&[100_000]),
        goals: &[Goal::times("steersman", "ns_per_item", 0.25, "client-go")],
        check: count_is_half_of_size_times_repeats,
        ..WORKQUEUE
    },
    Job {
        name: "apiserver-start",
        about: "from nothing to the first answer, a list of namespaces",
        task: "apiserver-start",
        contestants: &["steersman", "steersman-in-process", "kube-apiserver"],
        full: Scale::of(&[1]),
        quick: Scale::of(&[1]),
        goals: &[Goal::value("steersman", "wall_s", 0.1), Goal::value("steersman-in-process", "wall_s", 0.02)],
        ..APISERVER
    },
    Job {
        name: "apiserver-starts",
        about: "servers in one process, one after the other; the first one is not measured",
        task: "apiserver-starts",
        contestants: &["steersman-in-process"],
        full: Scale::of(&[5_000]),
        quick: Scale::of(&[1_000]),
        costs: &["cpu_us_per_start"],
        goals: &[Goal::value("steersman-in-process", "cpu_us_per_start", 1_000.0)],
        ..APISERVER
    },
    Job {
        name: "apiserver-apply",
        about: "server-side applies of 50 fields by 16 writers; processor time is the server's, with etcd's",
        task: "apiserver-apply",
        full: Scale::of(&[5_000]),
        quick: Scale::of(&[1_000]),
        costs: &["cpu_us_per_apply", "wall_s"],
        goals: &[Goal::times("steersman", "cpu_us_per_apply", 0.2, "kube-apiserver")],
        ..APISERVER
    },
    Job {
        name: "apiserver-create",
        about: "Pods of 7.8 KB created by 16 writers; processor time and memory are the server's, with etcd's",
        task: "apiserver-create",
        costs: &["cpu_us_per_write", "wall_s", "rss_mb", "peak_mb"],
        goals: &[
            Goal::times("steersman", "cpu_us_per_write", 0.1, "kube-apiserver"),
            Goal::times("steersman", "rss_mb", 0.1, "kube-apiserver"),
            Goal::times("steersman", "peak_mb", 0.1, "kube-apiserver"),
        ],
        ..APISERVER
    },
    Job {
        name: "apiserver-list",
        about: "Pods of 7.8 KB listed as JSON, plain and with gzip asked for, to the last byte; times are of one list",
        task: "apiserver-list",
        costs: &["list_ms", "list_cpu_ms", "gzip_ms", "gzip_cpu_ms"],
        goals: &[
            Goal::times("steersman", "list_ms", 0.05, "kube-apiserver"),
            Goal::times("steersman", "list_cpu_ms", 0.05, "kube-apiserver"),
            Goal::times("steersman", "gzip_ms", 0.05, "kube-apiserver"),
            Goal::times("steersman", "gzip_cpu_ms", 0.05, "kube-apiserver"),
        ],
        ..APISERVER
    },
    Job {
        name: "apiserver-watch",
        about: "watchers that all receive each of the Pods created; in process, processor time includes the watchers'",
        task: "apiserver-watch",
        contestants: &["steersman", "steersman-in-process", "kube-apiserver"],
        full: Scale::of(&[1_000]).with_events(1_000),
        quick: Scale::of(&[100]).with_events(100),
        costs: &["cpu_s", "wall_s"],
        goals: &[
            Goal::times("steersman", "cpu_s", 1.0 / 3.0, "kube-apiserver"),
            Goal::times("steersman-in-process", "cpu_s", 0.1, "kube-apiserver"),
        ],
        check: count_is_size_times_events,
        time_limit: Duration::from_secs(600),
        ..APISERVER
    },
];
