/*
 * The cut and the commit of a boundary move: A freezes the region, B stages what A sends, and one PUT of the region Lease,
 * A -> B, whose outcome A may never hear, makes B its holder.
 *
 * The Lease has a holder, an order, the id of a stage, and a resource version; a PUT counts only if it shows the current
 * version. What A has sent may land at any later time, also after A gave up waiting, was fenced or is dead. A settles an
 * unknown outcome by another write, one that names itself: when that one is taken, the first can not be any more
 * (fence.Regions.until, put, write). The operator writes the Lease too: orders (the
 * annotation), and, once A or B is revoked, the holder.
 *
 * What is in the region is one number that rises with whatever happens there: a copy with a lower number has missed
 * something. B begins with its stage if that is the one that the Lease names; else it loads from the store and asks A, as the
 * heir C does, and A offers what it kept.
 *
 * Checked: oneSimulates() after every step, begins() when somebody begins (nothing is missing but what died unsaved with its
 * only holder), atRest() when nothing can happen any more. What a run may do is set with -D:
 */
#ifndef MOVES
#define MOVES 2     /* times that A cuts */
#endif
#ifndef LOST
#define LOST 2      /* answers that A does not hear; each leaves a PUT under way */
#endif
#ifndef FAULTS
#define FAULTS 0    /* pauses of A; each ends with A back, or revoked */
#endif
#ifndef DEATHS
#define DEATHS 0    /* of B */
#endif
#ifndef ORDERS
#define ORDERS 1    /* times that the order changes from B to A or back */
#endif
#ifndef CHANGES
#define CHANGES 2   /* of what is in the region, at A and then at B */
#endif

#define NOBODY 0
#define A 1
#define B 2
#define C 3   /* gets the region when A is revoked, or B does; and when B is revoked */

mtype = { Up, Fenced, Dead };
mtype life = Up;                      /* of A: a fenced node makes no step (fence.Deadline) */
bool bDead;                           /* B is revoked */

/* The Lease of the region. */
byte holder = A;
byte version = 1;
byte target = B;                      /* the order */
byte named;                           /* the stage that the commit names, 0 if none */

/* What is in the region: of everybody who has it, and of the store. */
byte newest;
byte has[4];
byte saved;
#define NEWER(x, y) ((x) > (y) -> (x) : (y))

/* The stage: on its way from A, at B, and whether A heard that it is there. */
byte cut, sentCut, sentHas;
byte stage, stageHas;
bool staged;
bool kept;                            /* A keeps its frozen copy after the commit, until it is durable elsewhere */

/* PUTs of A that are under way, and what A waits for. */
#define SLOTS 3
byte putHolder[SLOTS];                /* 0: the slot is empty */
byte putVersion[SLOTS];
byte putNamed[SLOTS];
byte asked;                           /* slot of the PUT whose answer A waits for */
mtype = { Idle, Sent, Taken, Conflict, Unknown };
mtype result = Idle;

mtype = { Simulating, Cutting, Committing, Looking, Settling, Evicted };
mtype a = Simulating;
byte seenHolder, seenVersion = 1;     /* the newest Lease that A was shown (fence.ledger) */
byte seenTarget = B;
bool bSimulates, cSimulates;

byte moves = MOVES, lost = LOST, faults = FAULTS, deaths = DEATHS, orders = ORDERS, changes = CHANGES;

#define aSimulates (life == Up && a == Simulating)

inline oneSimulates() { assert(aSimulates + bSimulates + cSimulates <= 1) }

inline atRest() {
	assert(aSimulates + bSimulates + cSimulates == 1);
	assert(life == Dead || a == Simulating || a == Evicted);
	assert(life == Dead || !kept)
}

/* Somebody begins with what there is. */
inline begins(who) {
	printf("%d begins with %d of %d\n", who, has[who], newest);
	assert(has[who] >= newest);
	newest = has[who]
}

inline evict() {
	a = Evicted;
#ifndef FORGETS_AT_COMMIT
	kept = true
#endif
}

/* Whoever has the region now has saved all of it. */
#define durable (bSimulates && !bDead && saved >= has[B] || cSimulates && saved >= has[C])

/* fence.Regions.write: the deadline is compared here; from now on the PUT may land whenever it likes. */
inline put(who) {
	if
	:: putHolder[0] == 0 -> asked = 0
	:: putHolder[0] != 0 && putHolder[1] == 0 -> asked = 1
	:: else -> assert(putHolder[2] == 0); asked = 2
	fi;
	putHolder[asked] = who;
	putVersion[asked] = seenVersion;
	putNamed[asked] = (who == B -> cut : 0);
	result = Sent;
	printf("A: PUT holder %d at version %d\n", who, seenVersion)
}

#define frozen (a == Cutting || a == Committing || a == Looking || a == Settling)

active proctype NodeA() {
end:
	do
	/* Something happens in the region, also that an offer is taken, with the entity in it. */
	:: atomic { aSimulates && changes > 0 -> changes--; newest++; has[A] = newest }
	:: atomic { aSimulates && saved < has[A] && holder == A -> saved = has[A] }
#ifdef TAKES_WHILE_FROZEN
	:: atomic { life == Up && frozen && changes > 0 -> changes--; newest++; has[A] = newest }
#endif
	/* Cut: no offer of A's own is open, no item moves. What changed last is sent, the region is frozen: from now on offers
	   are answered Wait, and offered again to who holds the region then. */
	:: atomic { life == Up && a == Simulating && moves > 0 && seenTarget == B -> moves--; a = Cutting;
		cut++; sentCut = cut; sentHas = has[A]; staged = false; printf("A cuts, stage %d has %d\n", cut, has[A]) }
	:: atomic { moves > 0 -> moves = 0 }
	/* No answer of B in time, or the order is taken back: nothing happened. */
	:: atomic { life == Up && a == Cutting -> a = Simulating; sentCut = 0; staged = false; printf("A thaws\n"); oneSimulates() }
	:: atomic { life == Up && a == Cutting && staged && result == Idle -> a = Committing; put(B) }
	:: atomic { life == Up && result == Sent && lost > 0 -> lost--; result = Unknown; printf("A: no answer\n") }
	:: atomic { life == Up && a == Committing && result == Taken -> evict(); result = Idle }
	:: atomic { life == Up && a == Settling && result == Taken -> a = Simulating; result = Idle; printf("A: settled, thaws\n"); oneSimulates() }
	:: atomic { life == Up && (a == Committing || a == Settling) && (result == Conflict || result == Unknown) -> a = Looking; result = Idle }
	/* GET */
	:: atomic { life == Up && a == Looking && result == Idle ->
		seenHolder = holder; seenVersion = version; seenTarget = target;
		printf("A: GET holder %d at version %d\n", holder, version);
		if
		:: seenHolder != A -> evict()
#ifdef THAW_ON_GET
		:: seenHolder == A -> a = Simulating; printf("A: thaws\n"); oneSimulates()
#else
		:: seenHolder == A -> a = Settling
#endif
		fi }
	:: atomic { life == Up && a == Settling && result == Idle -> put(A) }
	/* The watch shows a newer Lease before the next cut. */
	:: atomic { life == Up && a == Simulating && seenVersion != version -> seenVersion = version; seenTarget = target }
	/* Durable */
	:: atomic { life == Up && kept && durable -> kept = false }
	od
}

#ifdef BLIND_PUT
#define counts(slot) true
#else
#define counts(slot) (version == putVersion[slot])
#endif

#define lands(slot) atomic { putHolder[slot] != 0 -> \
		if \
		:: counts(slot) -> holder = putHolder[slot]; named = putNamed[slot]; version++; if :: result == Sent && asked == slot -> result = Taken :: else -> skip fi; \
			printf("the Lease names %d at version %d\n", holder, version) \
		:: else -> if :: result == Sent && asked == slot -> result = Conflict :: else -> skip fi; printf("a PUT is refused\n") \
		fi; \
		putHolder[slot] = 0; putVersion[slot] = 0; putNamed[slot] = 0 }

active proctype Network() {
end:
	do
	:: lands(0)
	:: lands(1)
	:: lands(2)
	od
}

/* Recovery: load, and ask A what it kept, which answers once it knows that it holds the region no more (Claiming). */
#define answered (life == Dead || life == Up && a == Evicted)
#ifdef KEPT_UNOFFERED
#define loaded saved
#else
#define loaded (life == Up && kept -> NEWER(saved, has[A]) : saved)
#endif
#ifdef ANY_STAGE
#define stageFits (stage != 0)
#else
#define stageFits (stage != 0 && stage == named)
#endif

/* B and C see by their watch that they hold the region, when they like, and begin. */
active proctype NodeB() {
end:
	do
	:: atomic { !bDead && sentCut != 0 -> stage = sentCut; stageHas = sentHas; sentCut = 0; staged = (a == Cutting && cut == stage); printf("B has staged %d\n", stage) }
	/* The order names B no more, or B has no room for it. */
#ifdef DROPS_AFTER_COMMIT
	:: atomic { !bDead && !bSimulates && stage != 0 && target != B -> stage = 0; stageHas = 0 }
#else
	:: atomic { !bDead && !bSimulates && stage != 0 && target != B && holder != B -> stage = 0; stageHas = 0 }
#endif
	:: atomic { !bDead && !bSimulates && holder == B && stageFits -> bSimulates = true; has[B] = stageHas; begins(B); oneSimulates() }
	:: atomic { !bDead && !bSimulates && holder == B && !stageFits && answered -> bSimulates = true; has[B] = loaded; begins(B); oneSimulates() }
	:: atomic { bSimulates && !bDead && changes > 0 -> changes--; newest++; has[B] = newest }
	:: atomic { bSimulates && !bDead && holder == B && saved < has[B] -> saved = has[B] }
	od
}

active proctype NodeC() {
end:
	do
	:: atomic { !cSimulates && holder == C && answered -> cSimulates = true; has[C] = loaded; begins(C); oneSimulates() }
	:: atomic { cSimulates && saved < has[C] -> saved = has[C] }
	od
}

#ifdef FREES_THE_FENCED
#define mayFree (life != Up && holder == A || bDead && holder == B)
#else
#define mayFree (life == Dead && holder == A || bDead && holder == B)
#endif

active proctype Operator() {
	byte read = 0;
end:
	do
	:: atomic { orders > 0 -> orders--; target = A + B - target; version++; printf("the order names %d\n", target) }
	:: atomic { orders > 0 -> orders = 0 }
	/* A region whose holder is not a live session is freed: read, then written at the version that was read. */
	:: atomic { mayFree && read == 0 -> read = version }
	:: atomic { read != 0 ->
		if
		:: version == read -> holder = NOBODY; named = 0; version++; printf("the operator frees the region\n")
		:: else -> skip
		fi;
		read = 0 }
	/* The order names B or C, which takes what is free. */
	:: atomic { holder == NOBODY && !bDead -> holder = B; version++; printf("B takes the region\n") }
	:: atomic { holder == NOBODY -> holder = C; version++; printf("C takes the region\n") }
	od
}

active proctype Fate() {
end:
	do
	:: atomic { life == Up && faults > 0 -> faults--; life = Fenced; printf("*** A is fenced\n") }
	:: atomic { faults > 0 -> faults = 0 }
	:: atomic { life == Fenced -> life = Up; printf("*** A is back\n"); oneSimulates() }
	/* What only A had is lost with it, up to 5 s of it; not what B has staged and is to begin with. */
	:: atomic { life == Fenced -> life = Dead; printf("*** A is revoked\n");
		newest = (bSimulates || cSimulates || holder == B && !bDead && stageFits -> newest : saved) }
	/* And what only B had. A that lives has what it sent. */
	:: atomic { deaths > 0 && !bDead && (holder == A || holder == B) -> deaths--; bDead = true; bSimulates = false; printf("*** B is revoked\n");
		newest = (life == Dead -> saved : NEWER(saved, has[A])) }
	:: atomic { deaths > 0 -> deaths = 0 }
	od
}

active proctype Rest() { atomic { timeout -> atRest() } }
