/*
 * One durable entity E and everybody who may own it: the protocol of node/handoff and node/zone, step by step.
 *
 *   A holds region R1, where E begins; B holds R2; C holds R3 and is the heir of R1; D is the heir of R2.
 *
 * E walks between the regions, offers are repeated, refused, answered late; A and B are paused, come back, or are revoked
 * and replaced. One atomic step is one thing that a tick of the engine does. Comments name the Go function that a step
 * stands for; README.md says what is left out.
 *
 * Checked: invariants() after every step, atRest() when nothing can happen any more. What a run may do is set with -D:
 */
#ifndef FAULTS
#define FAULTS 1    /* pauses of A and B, each of which ends with the node back or dead */
#endif
#ifndef OFFERS
#define OFFERS 2    /* times that E sets out for another region */
#endif
#ifndef REOFFERS
#define REOFFERS 0  /* offers that are sent again though nothing is wrong, only late */
#endif
#ifndef REFUSALS
#define REFUSALS 0  /* refusals by a target that holds the region */
#endif
#ifndef REPLAYS
#define REPLAYS 0   /* claims that reach the store a second time, at any later moment */
#endif

#define A 0
#define B 1
#define C 2
#define D 3
#define NOBODY 4

#define R1 0
#define R2 1
#define R3 2

mtype = { Offer, Accept, Refuse, Durable, Claiming, ClaimingAnswer };  /* api/wire, PeerMessage */
mtype = { Transfer, Recovery, Orphan, Missed };                        /* who asked for a claim */

/* ---- nodes and their sessions ------------------------------------------------------------------------------------ */

/* A fenced node makes no step; what it sent before still arrives. A dead one is revoked: crashed, or paused for too long. */
mtype = { Up, Fenced, Dead };
mtype life[4] = Up;

/* The truth about a region of A or B: its first holder lives, its session is revoked, its heir holds the Lease. Every node
   sees each of these changes in this order, but when it likes (fence.ledger, Engine.tableChanged, link.PeerDead). */
#define FIRST 0
#define FREE  1
#define HEIR  2
byte stage[2];
byte table[8];                        /* stage of a region as a node knows it */
#define knows(n, r)    table[(n) * 2 + (r)]
#define first(r)       (r)            /* A holds R1, B holds R2 */
#define heir(r)        ((r) + 2)      /* C for R1, D for R2 */
#define deadTo(n, x)   ((x) < 2 && knows(n, (x) % 2) != FIRST)
/* sim.liveHolder */
#define holder(n, r)   ((r) == R3 -> C : (knows(n, (r) % 2) == FIRST -> first(r) : (knows(n, (r) % 2) == HEIR -> heir(r) : NOBODY)))
/* Lease epoch of a region in a node's table */
#define leaseEpoch(n, r) ((r) != R3 && knows(n, (r) % 2) == HEIR -> 2 : 1)

/* The heir's recovery of a region (zone.region). */
mtype = { NotHeld, Recovering, Claimed, Active };
mtype recovery[2] = NotHeld;
bool  loaded[2];                      /* region.loaded */
byte  loadedEpoch[2];                 /* region.records: epoch of E's record, 0 if it is not at home here */
bool  elsewhere[2];                   /* region.elsewhere holds E */
bool  waiting[8];                     /* region.waiting: who has not answered Claiming */
#define waits(r, n)    waiting[(r) * 4 + (n)]
#define held(n, r)     ((r) == R3 -> (n) == C : (n) == first(r) || (n) == heir(r) && recovery[(r) % 2] != NotHeld)
#define active(n, r)   ((r) == R3 -> (n) == C : (n) == first(r) || (n) == heir(r) && recovery[(r) % 2] == Active)

/* ---- E as the nodes have it -------------------------------------------------------------------------------------- */

/* Epochs are 10 * recoveries + transfers; 0 is none. */
#define recovered(e)   (10 * ((e) / 10 + 1))
#define sameLife(e, f) ((e) / 10 == (f) / 10)

mtype = { None, Acting, Frozen };
mtype copy[4] = None;
byte  epoch[4];                       /* authority.epoch */
byte  home[4];                        /* authority.home */
bool  claimed[4];                     /* saving.claimed */
byte  source[4] = NOBODY;             /* saving.source: who waits for Durable */

mtype = { Nothing, Offered, Kept };   /* handoff.Book: no entry, not accepted yet, kept until it is durable */
mtype out[4] = Nothing;
byte  outEpoch[4], outTo[4], outSource[4], outSourceEpoch[4];
byte  outRegion[4];
bool  passedOn[4];                    /* Outgoing.PassedOn */
bool  heirAsked[4];                   /* Outgoing.Heir: the heir of outRegion has asked what is kept of it */
#define orphaned(n)    (out[n] == Kept || passedOn[n])

byte  tombstone[4];                   /* handoff.Known */
byte  burned[4];
/* region.waking: the holder of a region has asked the store for an orphan that it was offered, and by whom. */
byte  orphanFrom[3] = NOBODY;
byte  orphanEpoch[3];
#ifndef CLAIMING_TEACHES_NOTHING
bool  taught[8];                      /* sim.learned: Claiming said that a region has a new epoch */
#define learned(n, r)  ((r) != R3 && taught[(n) * 2 + (r) % 2])
#else
#define learned(n, r)  false
#endif
/* sim.sourceLost: an offer of epoch e of region r, which peer sent, is of a session that has lost the region */
#define sourceLost(n, peer, r, e) (learned(n, r) && (e) < 2 && (peer) != heir(r) || \
                        (e) < leaseEpoch(n, r) && holder(n, r) != (peer) && !held(n, r))

/* Reliable streams, one each way between two nodes (and the loopback): in order, nothing lost while both sessions live. */
chan link[16] = [5] of { mtype, byte, byte, byte, byte, bool };  /* kind, epoch, target region, source region, its epoch, flag */
#define stream(from, to) link[(from) * 4 + (to)]

/* ---- the store --------------------------------------------------------------------------------------------------- */

byte recordEpoch = 1;
byte recordHome = R1;
chan request[4] = [4] of { mtype, byte, byte, byte };   /* who asked, expect, epoch, home */
chan answer[4] = [4] of { mtype, bool, byte, byte, byte, byte };  /* who asked, taken?, epoch and home asked for, the record's */
byte lateExpect, lateEpoch, lateHome;                   /* a claim that lands once more */

/* ---- what may still happen --------------------------------------------------------------------------------------- */

byte faults = FAULTS, offers = OFFERS, reoffers = REOFFERS, refusals = REFUSALS, replays = REPLAYS;
byte nudges;

/* Scratch of one atomic step; not part of the state. */
hidden mtype kind;
hidden byte from, ep, tgt, src, srcEpoch, to, expect, stored, storedHome, i;
hidden byte flag, listed;

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

#define acts(n)        (life[n] == Up && copy[n] == Acting)
#define newest(e)      ((copy[A] == None || epoch[A] <= e) && (copy[B] == None || epoch[B] <= e) && \
                        (copy[C] == None || epoch[C] <= e) && (copy[D] == None || epoch[D] <= e) && recordEpoch <= e)

byte highest = 1;                     /* epoch that anybody ever had E with from another node; a thaw raises no content */

/* Invariant 1, and whoever acts has the highest epoch of all copies. */
inline invariants() {
	assert(acts(A) + acts(B) + acts(C) + acts(D) <= 1);
	assert(!acts(A) || newest(epoch[A]));
	assert(!acts(B) || newest(epoch[B]));
	assert(!acts(C) || newest(epoch[C]));
	assert(!acts(D) || newest(epoch[D]))
}

#define settled(n)     (life[n] == Dead || copy[n] != Frozen && out[n] == Nothing)
#define durableAt(n)   (acts(n) && claimed[n] && epoch[n] == recordEpoch && home[n] == recordHome)
#define nobodyHas      (!acts(A) && !acts(B) && !acts(C) && !acts(D))
/* Who is asked for E wakes it from its record: sim.wake, once region.overdue. */
#define willWake       (recordHome == R3 || stage[recordHome % 2] == FIRST && life[first(recordHome)] == Up || \
                        stage[recordHome % 2] == HEIR && recovery[recordHome % 2] == Active)

/* Invariant 2, and nothing is frozen or kept for ever. Nobody has to wake E if nobody died, and one death alone never throws
   it back to a record from before its last handoff. */
inline atRest() {
	assert(settled(A) && settled(B) && settled(C) && settled(D));
	assert(durableAt(A) || durableAt(B) || durableAt(C) || durableAt(D) || nobodyHas && willWake);
	assert(!nobodyHas || life[A] == Dead || life[B] == Dead);
	assert(!nobodyHas || recordEpoch >= highest || life[A] == Dead && life[B] == Dead)
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* Engine.send. Nothing reaches the dead; a stream that is full would be a bound of this model, not of the link. */
inline say(n, peer, k, e, target, sourceRegion, sourceEpoch, f) {
	if
	:: deadTo(n, peer) || life[peer] == Dead -> skip
	:: else ->
		assert(nfull(stream(n, peer)));
		printf("  %c sends %e of epoch %d, region R%d to %c\n", 'A' + n, k, e, 1 + target, 'A' + peer);
		stream(n, peer)!k, e, target, sourceRegion, sourceEpoch, f
	fi
}

/* sim.sendOffer: an offer that was accepted, or passed on to another session, is marked orphaned. */
inline sendOffer(n) {
	say(n, outTo[n], Offer, outEpoch[n], outRegion[n], outSource[n], outSourceEpoch[n], orphaned(n))
}

/* sim.claimTransferred */
inline claim(n, why, exp, e, h) {
	assert(nfull(request[n]));
	printf("  %c asks the store: epoch %d -> %d, home R%d\n", 'A' + n, exp, e, 1 + h);
	request[n]!why, exp, e, h
}

inline forgetOffer(n) {
	out[n] = Nothing; outEpoch[n] = 0; outTo[n] = 0; outRegion[n] = 0; outSource[n] = 0; outSourceEpoch[n] = 0;
	passedOn[n] = false; heirAsked[n] = false
}

inline evict(n) {
	printf("  %c has no copy any more\n", 'A' + n);
	copy[n] = None; epoch[n] = 0; home[n] = 0; claimed[n] = false; source[n] = NOBODY
}

/* sim.dropCopy */
inline dropCopy(n) { forgetOffer(n); evict(n) }

/* sim.bury */
inline bury(n, e) {
	if :: tombstone[n] < e -> tombstone[n] = e :: else fi
}

/* ---- the target -------------------------------------------------------------------------------------------------- */

/* sim.refuse: the epoch is burned. */
inline refuse(n) {
#ifndef NO_BURN
	if :: burned[n] < ep -> burned[n] = ep :: else fi;
#endif
	say(n, from, Refuse, ep, 0, 0, 0, false)
}

/* sim.acceptAgain */
inline acceptAgain(n) {
	say(n, from, Accept, ep, 0, 0, 0, false);
	if
	:: copy[n] != None && !claimed[n] -> source[n] = from
	:: else -> say(n, from, Durable, ep, 0, 0, 0, false)
	fi
}

/* sim.received: what was kept of E here is older. */
inline received(n) {
	tombstone[n] = 0;                 /* Known.Returned */
	endKept(n)
}

inline endKept(n) {
#ifndef KEEPS_OFFER_OF_RETURNED
	forgetOffer(n)
#else
	skip
#endif
}

/* sim.adopt and the claim, in sim.take */
inline adopt(n) {
	received(n);
	copy[n] = Acting; epoch[n] = ep; home[n] = tgt; claimed[n] = false; source[n] = from;
	highest = (highest < ep -> ep : highest);
	claim(n, Transfer, ep - 1, ep, tgt);
	say(n, from, Accept, ep, 0, 0, 0, false)
}

/* sim.adopt of what the store has given already: sim.adoptOrphan, sim.revive. */
inline adoptClaimed(n) {
	copy[n] = Acting; epoch[n] = ep; home[n] = tgt; claimed[n] = true; source[n] = NOBODY;
	highest = (highest < ep -> ep : highest)
}

/* sim.take */
inline take(n) {
	if
#ifdef HEIR_REFUSES_ORPHAN
	:: !active(n, tgt) -> refuse(n)
#else
	:: !active(n, tgt) && flag -> skip
	:: !active(n, tgt) && !flag -> refuse(n)
#endif
	:: active(n, tgt) && !flag && sourceLost(n, from, src, srcEpoch) -> refuse(n)
#ifndef ORPHAN_AT_ONCE
	:: active(n, tgt) && flag -> takeOrphan(n, ep - 1)
#endif
	:: else ->
		if
		:: refusals > 0 && !flag -> refusals--; refuse(n)      /* what cannot be composed here */
		:: adopt(n)
		fi
	fi
}

/* sim.takeOrphan: ask the store first, from where the record is expected to be. A source that lost its region and does
   not speak is not heeded; only a dead one has lost it. */
inline takeOrphan(n, exp) {
	if
	:: orphanFrom[tgt] != NOBODY -> skip
	:: orphanFrom[tgt] == NOBODY && life[from] == Dead -> skip
	:: orphanFrom[tgt] == NOBODY ->
		orphanFrom[tgt] = from; orphanEpoch[tgt] = ep;
		claim(n, Orphan, exp, recovered(exp), tgt)
	fi
}

/* sim.takeBack: the region it was offered to came to the source itself. */
inline takeBack(n) {
	if
	:: !active(n, tgt) -> skip
	:: else ->
		expect = epoch[n];
		forgetOffer(n);
		copy[n] = Acting; epoch[n] = ep + 1; home[n] = tgt; claimed[n] = false;
		claim(n, Transfer, expect, epoch[n], tgt)
	fi
}

/* An orphan is refused only if this very epoch was: a later one that was refused says nothing of who has the orphan. */
#ifdef BURNED_ORPHAN
#define mayRefuse      true
#else
#define mayRefuse      (!flag || burned[n] == ep)
#endif

/* sim.offered, with handoff.Known.Judge */
inline offered(n) {
#ifndef TAKEN_BACK_AT_ONCE
	if                                /* the holder before may have taken E and handed it on: the copy is worth what a kept one is */
	:: from == n && out[n] == Offered && copy[n] != None && flag && active(n, tgt) -> evict(n); out[n] = Kept
	:: else -> skip
	fi;
#endif
	if
	:: from == n && out[n] == Offered && copy[n] != None -> takeBack(n)
	:: else ->
		if :: from == n && tombstone[n] == ep -> tombstone[n] = 0 :: else fi;
		if
		:: copy[n] != None && epoch[n] < ep && !mayRefuse -> skip
		:: copy[n] != None && epoch[n] < ep && mayRefuse -> refuse(n)
		:: copy[n] != None && epoch[n] >= ep -> acceptAgain(n)
		:: copy[n] == None && tombstone[n] >= ep -> acceptAgain(n)
		:: copy[n] == None && tombstone[n] < ep && burned[n] >= ep && mayRefuse -> refuse(n)
		:: else -> take(n)
		fi
	fi
}

/* ---- the source -------------------------------------------------------------------------------------------------- */

/* sim.offer: freeze, then offer. */
inline offer(n, region) {
	copy[n] = Frozen;
	out[n] = Offered; outEpoch[n] = epoch[n] + 1; outRegion[n] = region; outTo[n] = holder(n, region);
	outSource[n] = home[n]; outSourceEpoch[n] = leaseEpoch(n, home[n]);
	sendOffer(n);
#ifdef EVICT_BEFORE_ACCEPT
	evict(n)
#endif
}

/* sim.rehome: from one region of this node to another. */
inline rehome(n, region) {
	if
	:: active(n, region) ->
		expect = epoch[n];
		epoch[n] = expect + 1; home[n] = region; claimed[n] = false;
		claim(n, Transfer, expect, epoch[n], region)
	:: else -> skip
	fi
}

/* sim.tryHandOver: E of this node has walked into another region. */
inline setOut(n, region) {
	printf("%c: E, at epoch %d, walks to R%d\n", 'A' + n, epoch[n], 1 + region);
	if
	:: holder(n, region) == NOBODY -> skip
	:: holder(n, region) == n -> rehome(n, region)
	:: else -> offer(n, region)
	fi
}

/* sim.thaw */
inline thaw(n) {
	forgetOffer(n);
	if
	:: copy[n] == None -> skip
	:: else ->
		expect = epoch[n];
#ifdef SAME_EPOCH_THAW
		copy[n] = Acting
#else
		copy[n] = Acting; epoch[n] = ep + 1; claimed[n] = false;
		claim(n, Transfer, expect, ep + 1, home[n])
#endif
	fi
}

/* sim.offerAnswered: Accept signs off and evicts, Refuse thaws. */
inline offerAnswered(n) {
	if
	:: out[n] != Offered || outEpoch[n] != ep -> skip
	:: out[n] == Offered && outEpoch[n] == ep && kind == Refuse -> thaw(n)
	:: else ->
		tombstone[n] = ep;            /* Known.Bury, in sim.signOff */
		evict(n);
#ifdef NO_DURABLE
		forgetOffer(n)
#else
		out[n] = Kept
#endif
	fi
}

/* sim.offerDurable: once the heir has asked what is kept here, only its word counts. */
inline offerDurable(n) {
	if
	:: out[n] == Kept && outEpoch[n] == ep && (!heirAsked[n] || from == heir(outRegion[n])) -> forgetOffer(n)
	:: else -> skip
	fi
}

/* Book.Due, when the region has another holder than the one offered to. */
#define targetChanged(n) (out[n] != Nothing && holder(n, outRegion[n]) != NOBODY && holder(n, outRegion[n]) != outTo[n])

/* Book.Due */
inline due(n) {
	printf("%c repeats its offer\n", 'A' + n);
	passedOn[n] = passedOn[n] || holder(n, outRegion[n]) != outTo[n];
	outTo[n] = holder(n, outRegion[n]);
	sendOffer(n)
}

#ifdef STORE_READ
/* Instead of a repeated offer: when the target is dead, look at the record. */
inline lookUp(n) {
	if
	:: recordEpoch >= outEpoch[n] -> dropCopy(n)
	:: recordEpoch < outEpoch[n] && out[n] == Offered -> ep = outEpoch[n]; thaw(n)
	:: recordEpoch < outEpoch[n] && out[n] == Kept && targetChanged(n) -> due(n)
	:: else -> skip
	fi;
	invariants()
}
#define targetDead(n)  (out[n] != Nothing && (holder(n, outRegion[n]) == NOBODY || targetChanged(n)))
#endif

/* ---- recovery ---------------------------------------------------------------------------------------------------- */

/* sim.recover and sim.ask */
inline recover(n, r) {
	recovery[r] = Recovering;
	for (i : A .. D) {
		if
		:: i != n && !deadTo(n, i) ->
#ifndef NO_CLAIMING_ROUND
			waits(r, i) = true;
			say(n, i, Claiming, 0, r, 0, 0, false)
#else
			skip
#endif
		:: else -> skip
		fi
	}
	i = 0
}

/* sim.claiming: what is here of the region, and what has not come to rest; and at which epoch. */
inline claiming(n) {
#ifdef CLAIMING_OMITS_FROZEN
	listed = copy[n] == Acting && (!claimed[n] || home[n] == tgt) || out[n] == Kept;
#else
	listed = copy[n] != None && (!claimed[n] || home[n] == tgt) || out[n] != Nothing;
#endif
#ifdef BOOK_UNNAMED
	ep = (copy[n] == Acting && (!claimed[n] || home[n] == tgt) -> epoch[n] : 0);
#else
	ep = (out[n] != Nothing -> outEpoch[n] - 1 : (copy[n] != None && (!claimed[n] || home[n] == tgt) -> epoch[n] : 0));
#endif
#ifndef CLAIMING_TEACHES_NOTHING
	taught[n * 2 + tgt] = true;
#endif
	if                                /* Outgoing.Recovering: whoever was asked there has lost E, if it had it */
	:: out[n] != Nothing && outRegion[n] == tgt -> passedOn[n] = true; heirAsked[n] = heirAsked[n] || outTo[n] != from
	:: else -> skip
	fi;
	say(n, from, ClaimingAnswer, ep, tgt, 0, 0, listed)
}

/* sim.claimingAnswered */
inline claimingAnswered(n) {
	waits(tgt, from) = false;
	elsewhere[tgt] = elsewhere[tgt] || flag;
#ifdef TAKEN_BACK_AT_ONCE
	if :: copy[n] == None -> bury(n, ep) :: else fi
#else
	if :: copy[n] != Acting -> bury(n, ep) :: else fi
#endif
}

/* sim.claimRecords */
#define allAnswered(r) (!waits(r, A) && !waits(r, B) && !waits(r, C) && !waits(r, D))
inline claimRecords(n, r) {
	printf("%c has all answers for R%d; elsewhere: %d, loaded at epoch %d\n", 'A' + n, 1 + r, elsewhere[r], loadedEpoch[r]);
	if
	:: loadedEpoch[r] != 0 && !elsewhere[r] && copy[n] == None ->
		recovery[r] = Claimed;
		claim(n, Recovery, loadedEpoch[r], recovered(loadedEpoch[r]), r)
	:: else -> recovery[r] = Active
	fi;
	loadedEpoch[r] = 0; elsewhere[r] = false; loaded[r] = false
}

/* ---- answers of the store ---------------------------------------------------------------------------------------- */

/* The answer that sim.claimTransferred waits for. */
inline transferAnswered(n) {
	if
	:: copy[n] == None || epoch[n] != ep -> skip                       /* not current any more */
	:: copy[n] != None && epoch[n] == ep && flag ->                    /* sim.durable */
		claimed[n] = true;
		if
		:: source[n] != NOBODY -> to = source[n]; source[n] = NOBODY; say(n, to, Durable, ep, 0, 0, 0, false)
		:: else -> skip
		fi
	:: copy[n] != None && epoch[n] == ep && !flag && sameLife(stored, ep) && stored < ep ->
		claim(n, Transfer, stored, ep, home[n])                        /* claims of fast crossings overtook each other */
	:: else ->
		dropCopy(n);
#ifndef DROP_FORGETS
		bury(n, stored)               /* a newer copy exists: late offers of older ones are accepted, not taken */
#endif
	fi
}

/* The answer that sim.claimRecords waits for: sim.revive, sim.activate. */
inline recoveryAnswered(n) {
	if
	:: flag && copy[n] == None -> endKept(n); adoptClaimed(n)
	:: else -> skip
	fi;
	recovery[n - 2] = Active;
	printf("%c is active in R%d\n", 'A' + n, n - 1)
}

/* The answer that sim.takeOrphan waits for. ep becomes the offered epoch where the source is told of it. */
inline orphanAnswered(n) {
	from = orphanFrom[tgt]; expect = orphanEpoch[tgt];
	orphanFrom[tgt] = NOBODY; orphanEpoch[tgt] = 0;
	if
	:: !active(n, tgt) || copy[n] != None -> skip
	:: active(n, tgt) && copy[n] == None && flag ->                    /* sim.adoptOrphan */
		received(n);
		adoptClaimed(n);
		ep = expect; acceptAgain(n)
	:: active(n, tgt) && copy[n] == None && !flag && stored <= expect ->
		ep = expect; takeOrphan(n, stored)
	:: active(n, tgt) && copy[n] == None && !flag && stored > expect && storedHome == tgt ->
		orphanFrom[tgt] = from; orphanEpoch[tgt] = expect;             /* the dead had it later than the offer: sim.claimMissed */
		claim(n, Missed, stored, recovered(stored), tgt)
	:: else ->
		bury(n, stored);
		ep = expect; acceptAgain(n)
	fi
}

/* The answer that sim.claimMissed waits for. The source asks again, and is told then. */
inline missedAnswered(n) {
	orphanFrom[tgt] = NOBODY; orphanEpoch[tgt] = 0;
	if
	:: flag && active(n, tgt) && copy[n] == None -> endKept(n); adoptClaimed(n)
	:: else -> skip
	fi
}

/* ---- a node ------------------------------------------------------------------------------------------------------ */

inline hear(n) {
	printf("%c hears %e of epoch %d from %c\n", 'A' + n, kind, ep, 'A' + from);
	if
	:: kind == Offer -> offered(n)
	:: kind == Accept || kind == Refuse -> offerAnswered(n)
	:: kind == Durable -> offerDurable(n)
	:: kind == Claiming -> claiming(n)
	:: kind == ClaimingAnswer -> claimingAnswered(n)
	fi;
	invariants()
}

/* link.PeerDead: what the dead one had sent and was not read yet is dropped, and nobody waits for its answer. */
inline learn(n, r) {
	knows(n, r)++;
	printf("%c sees R%d at stage %d (1: its node is dead, 2: it has an heir)\n", 'A' + n, 1 + r, knows(n, r));
	if
	:: knows(n, r) == FREE ->
		do
		:: nempty(stream(first(r), n)) -> stream(first(r), n)?kind, ep, tgt, src, srcEpoch, flag
		:: empty(stream(first(r), n)) -> break
		od;
		if :: n >= C -> waits(n - 2, first(r)) = false :: else -> skip fi
	:: knows(n, r) == HEIR && n == heir(r) -> recover(n, r)
	:: else -> skip
	fi
}

/* What a node sends to itself is heard in the same step (Engine.loop). */
#define heardItself(n) empty(stream(n, n))

#define hears(peer) atomic { life[n] == Up && nempty(stream(peer, n)) && ((peer) == n || heardItself(n)) -> stream(peer, n)?kind, ep, tgt, src, srcEpoch, flag; from = peer; hear(n) }
#define walksTo(r)  atomic { acts(n) && heardItself(n) && out[n] == Nothing && offers > 0 && home[n] != r -> offers--; setOut(n, r); invariants() }

proctype Node(byte n) {
end:
	do
	:: hears(A)
	:: hears(B)
	:: hears(C)
	:: hears(D)
	:: walksTo(R1)
	:: walksTo(R2)
#ifdef THIRD
	:: walksTo(R3)
#endif
	:: atomic { life[n] == Up && heardItself(n) && knows(n, R1) < stage[R1] -> learn(n, R1) }
	:: atomic { life[n] == Up && heardItself(n) && knows(n, R2) < stage[R2] -> learn(n, R2) }
#ifdef STORE_READ
	:: atomic { life[n] == Up && heardItself(n) && targetDead(n) && (out[n] == Offered || targetChanged(n)) -> lookUp(n) }
#else
	:: atomic { life[n] == Up && heardItself(n) && targetChanged(n) -> due(n) }
#endif
	:: atomic { life[n] == Up && heardItself(n) && out[n] != Nothing && holder(n, outRegion[n]) != NOBODY && reoffers > 0 -> reoffers--; due(n) }
	:: atomic { life[n] == Up && heardItself(n) && nempty(answer[n]) ->
		answer[n]?kind, flag, ep, tgt, stored, storedHome;
		printf("%c is answered by the store: epoch %d taken: %d, record at %d\n", 'A' + n, ep, flag, stored);
		if
		:: kind == Transfer -> transferAnswered(n)
		:: kind == Recovery -> recoveryAnswered(n)
		:: kind == Orphan -> orphanAnswered(n)
		:: kind == Missed -> missedAnswered(n)
		fi;
		invariants() }
	:: atomic { n >= C && heardItself(n) && recovery[n - 2] == Recovering && !loaded[n - 2] ->      /* sim.load */
		printf("%c loads R%d: record at epoch %d, home R%d\n", 'A' + n, n - 1, recordEpoch, 1 + recordHome);
		loaded[n - 2] = true;
		loadedEpoch[n - 2] = (recordHome == n - 2 -> recordEpoch : 0) }
	:: atomic { n >= C && heardItself(n) && recovery[n - 2] == Recovering && loaded[n - 2] && allAnswered(n - 2) -> claimRecords(n, n - 2) }
	od
}

/* ---- the store: one compare-and-swap each (store.claimTakes, store.claimRepeats) ---------------------------------- */

inline land() {
	printf("store: claim %d -> %d, home R%d; the record is at %d, R%d\n", expect, ep, 1 + tgt, recordEpoch, 1 + recordHome);
	if
	:: recordEpoch == expect && expect < ep -> recordEpoch = ep; recordHome = tgt; flag = true
	:: else -> flag = recordEpoch == ep && recordHome == tgt
	fi
}

#define lands(n) atomic { nempty(request[n]) -> \
		request[n]?kind, expect, ep, tgt; \
		if \
		:: replays > 0 -> replays--; lateExpect = expect; lateEpoch = ep; lateHome = tgt \
		:: true \
		fi; \
		land(); \
		if \
		:: life[n] == Dead -> skip \
		:: else -> assert(nfull(answer[n])); answer[n]!kind, flag, ep, tgt, recordEpoch, recordHome \
		fi; \
		invariants() }

active proctype Store() {
end:
	do
	:: lands(A)
	:: lands(B)
	:: lands(C)
	:: lands(D)
	:: atomic { lateEpoch != 0 -> expect = lateExpect; ep = lateEpoch; tgt = lateHome; lateExpect = 0; lateEpoch = 0; lateHome = 0; land(); invariants() }
	od
}

/* ---- fate -------------------------------------------------------------------------------------------------------- */

/* The operator revokes a session; what its node sent to the store may still land, or never will. */
inline revoke(n) {
	printf("*** %c is dead\n", 'A' + n);
	life[n] = Dead;
	stage[n] = FREE;
	dropCopy(n);
	tombstone[n] = 0; burned[n] = 0;
	orphanFrom[n] = NOBODY; orphanEpoch[n] = 0;     /* of the region that it held first */
	for (i : A .. D) {
		do
		:: nempty(stream(i, n)) -> stream(i, n)?kind, ep, tgt, src, srcEpoch, flag
		:: empty(stream(i, n)) -> break
		od
	}
	i = 0;
	do
	:: nempty(answer[n]) -> answer[n]?kind, flag, ep, tgt, stored, storedHome
	:: empty(answer[n]) -> break
	od;
	if
	:: nempty(request[n]) ->
		do
		:: nempty(request[n]) -> request[n]?kind, expect, ep, tgt
		:: empty(request[n]) -> break
		od
	:: true
	fi
}

active proctype Fate() {
	atomic {
		copy[A] = Acting; epoch[A] = 1; home[A] = R1; claimed[A] = true;
		run Node(A); run Node(B); run Node(C); run Node(D)
	}
end:
	do
	:: atomic { life[A] == Up && faults > 0 -> faults--; life[A] = Fenced; printf("*** A is fenced\n") }
	:: atomic { life[B] == Up && faults > 0 -> faults--; life[B] = Fenced; printf("*** B is fenced\n") }
	:: atomic { life[A] == Fenced -> life[A] = Up; printf("*** A is back\n"); invariants() }        /* renewed: thawed in place */
	:: atomic { life[B] == Fenced -> life[B] = Up; printf("*** B is back\n"); invariants() }
	:: atomic { life[A] == Fenced -> revoke(A) }
	:: atomic { life[B] == Fenced -> revoke(B) }
	:: atomic { stage[R1] == FREE -> stage[R1] = HEIR }
	:: atomic { stage[R2] == FREE -> stage[R2] = HEIR }
	:: atomic { faults > 0 || offers > 0 || reoffers > 0 -> faults = 0; offers = 0; reoffers = 0 }   /* no more of it */
	od
}

/* ---- rest -------------------------------------------------------------------------------------------------------- */

/* An offer that is still open when all is quiet is repeated (handoff.RepeatTicks), which must settle it. */
#define unanswered(n) (life[n] == Up && out[n] != Nothing && holder(n, outRegion[n]) != NOBODY && nudges < 3)

active proctype Rest() {
	do
	:: atomic { timeout ->
		if
		:: unanswered(A) -> nudges++; due(A)
		:: unanswered(B) -> nudges++; due(B)
		:: unanswered(C) -> nudges++; due(C)
		:: unanswered(D) -> nudges++; due(D)
		:: else -> atRest(); break
		fi }
	od
}
