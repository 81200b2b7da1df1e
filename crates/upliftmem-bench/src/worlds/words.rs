//! The words that the worlds are told in: twelve places of work, three kinds of job in each, things to handle.

/// A place of work.
pub(super) struct Topic {
    /// What everybody calls it; it is in nearly every text about it.
    pub(super) name: &'static str,
    /// The kinds of job done there.
    pub(super) kinds: [Kind; 3],
    /// Things that a job may turn on.
    pub(super) objects: [&'static str; 10],
}

/// A kind of job, in two wordings that share few words.
pub(super) struct Kind {
    /// As one would ask for it.
    pub(super) everyday: &'static str,
    /// As a manual would have it.
    pub(super) formal: &'static str,
}

const fn kind(everyday: &'static str, formal: &'static str) -> Kind {
    Kind { everyday, formal }
}

/// All places.
pub(super) const TOPICS: [Topic; 12] = [
    Topic {
        name: "kitchen",
        kinds: [
            kind("heat up a meal", "warming of dishes"),
            kind("wash the plates", "cleaning of tableware"),
            kind("put away the groceries", "storage of provisions"),
        ],
        objects: [
            "stove",
            "fridge",
            "sink",
            "kettle",
            "pan",
            "shelf",
            "microwave",
            "cupboard",
            "tray",
            "freezer",
        ],
    },
    Topic {
        name: "garden",
        kinds: [
            kind("water the flower beds", "irrigation rounds"),
            kind("trim the hedge", "pruning works"),
            kind("plant the seedlings", "spring sowing"),
        ],
        objects: [
            "hose",
            "shed",
            "rake",
            "pot",
            "gate",
            "compost",
            "fence",
            "sprinkler",
            "lawn",
            "trellis",
        ],
    },
    Topic {
        name: "payments",
        kinds: [
            kind("refund an order", "reversal of charges"),
            kind("split an invoice", "apportioning of bills"),
            kind("change a card", "replacement of payment means"),
        ],
        objects: [
            "ledger",
            "receipt",
            "voucher",
            "balance",
            "currency",
            "statement",
            "wallet",
            "merchant",
            "fee",
            "deposit",
        ],
    },
    Topic {
        name: "travel",
        kinds: [
            kind("rebook a flight", "rerouting of passengers"),
            kind("reserve a hotel room", "lodging arrangements"),
            kind("plan an airport transfer", "ground transport"),
        ],
        objects: [
            "itinerary",
            "passport",
            "lounge",
            "baggage",
            "terminal",
            "shuttle",
            "visa",
            "fare",
            "stopover",
            "concierge",
        ],
    },
    Topic {
        name: "database",
        kinds: [
            kind("speed up a query", "tuning of statements"),
            kind("migrate a table", "relocation of relations"),
            kind("restore a backup", "recovery procedures"),
        ],
        objects: [
            "index",
            "schema",
            "replica",
            "cursor",
            "lock",
            "snapshot",
            "column",
            "partition",
            "trigger",
            "vacuum",
        ],
    },
    Topic {
        name: "network",
        kinds: [
            kind("trace lost packets", "diagnosis of drops"),
            kind("rotate a certificate", "renewal of credentials"),
            kind("open a firewall port", "admission of traffic"),
        ],
        objects: [
            "router",
            "subnet",
            "gateway",
            "proxy",
            "switch",
            "tunnel",
            "resolver",
            "handshake",
            "antenna",
            "modem",
        ],
    },
    Topic {
        name: "spreadsheet",
        kinds: [
            kind("merge two tabs", "consolidation of data"),
            kind("fix a formula", "correction of expressions"),
            kind("draw a bar chart", "graphical presentation"),
        ],
        objects: [
            "cell", "pivot", "header", "filter", "range", "macro", "legend", "axis", "footnote", "template",
        ],
    },
    Topic {
        name: "clinic",
        kinds: [
            kind("schedule a visit", "appointment keeping"),
            kind("refill a prescription", "renewal of medication"),
            kind("file the lab results", "archiving of findings"),
        ],
        objects: [
            "nurse", "dosage", "pharmacy", "referral", "intake", "specimen", "allergy", "ward", "triage",
            "insurer",
        ],
    },
    Topic {
        name: "warehouse",
        kinds: [
            kind("pick an order", "order fulfilment"),
            kind("count the stock", "inventory taking"),
            kind("load a pallet", "palletising of goods"),
        ],
        objects: [
            "forklift", "barcode", "aisle", "bin", "dock", "manifest", "scanner", "crate", "conveyor",
            "sticker",
        ],
    },
    Topic {
        name: "school",
        kinds: [
            kind("grade the essays", "marking of papers"),
            kind("book a classroom", "allocation of premises"),
            kind("prepare a lesson", "didactic planning"),
        ],
        objects: [
            "syllabus",
            "rubric",
            "roster",
            "projector",
            "quiz",
            "homework",
            "semester",
            "tutor",
            "library",
            "blackboard",
        ],
    },
    Topic {
        name: "studio",
        kinds: [
            kind("mix a track", "levelling of channels"),
            kind("tune the piano", "pitch correction"),
            kind("record the vocals", "capture of voices"),
        ],
        objects: [
            "microphone",
            "fader",
            "reverb",
            "tempo",
            "amplifier",
            "pedal",
            "booth",
            "metronome",
            "headphones",
            "mixer",
        ],
    },
    Topic {
        name: "workshop",
        kinds: [
            kind("true a wheel", "alignment of rims"),
            kind("replace the chain", "drivetrain service"),
            kind("adjust the brakes", "setting of stopping gear"),
        ],
        objects: [
            "spoke",
            "derailleur",
            "caliper",
            "hub",
            "crank",
            "lever",
            "tyre",
            "bearing",
            "saddle",
            "cassette",
        ],
    },
];

/// Circumstances that tell nothing.
pub(super) const CIRCUMSTANCES: [&str; 14] = [
    "The usual person is away.",
    "It has to be done before lunch.",
    "Nobody has written down how it was done before.",
    "A customer is waiting.",
    "There is no hurry.",
    "Somebody tried yesterday and gave up.",
    "Please report when it is done.",
    "It came in late last night.",
    "The manager asked twice.",
    "Everything else is ready.",
    "We do this about once a month.",
    "It is the last item on the list.",
    "The new colleague will watch.",
    "Keep it simple.",
];

/// Endings of a memory that tell nothing either.
pub(super) const REMARKS: [&str; 12] = [
    "It takes a few minutes.",
    "Somebody wrote this down on a Tuesday.",
    "The wording is from the shift book.",
    "It was seen at the other site as well.",
    "There was little time to look further.",
    "The colleague at the desk knows more.",
    "Bring a pen.",
    "It was raining that day.",
    "A photo was taken but not kept.",
    "The list on the wall is older.",
    "Two people were present.",
    "Later steps were not recorded.",
];

/// Rare endings that hint at whether a memory helps.
pub(super) const PRAISE: [&str; 3] = [
    "It worked every time since.",
    "The result was right.",
    "Confirmed by two people.",
];

/// Rare endings that hint at whether a memory harms.
pub(super) const DOUBT: [&str; 3] = [
    "Nobody checked the result.",
    "This is from hearsay.",
    "The outcome was not recorded.",
];
