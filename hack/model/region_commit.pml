/*
 * The commit of a boundary move: one PUT of the region Lease, A -> B, whose outcome A may never hear.
 *
 * The Lease has a holder and a resource version; a PUT counts only if it shows the current version. What A has sent may
 * land at any later time, also after A gave up waiting, was fenced or is dead. A settles an unknown outcome by another
 * write, one that names itself: when that one is taken, the first can not be any more (fence.Regions.until, put, write;
 * operator.md, "Boundary move", 4). The operator writes the Lease too: orders (the annotation), and, once A is revoked,
 * the holder.
 *
 * Checked: oneSimulates() after every step, atRest() when nothing can happen any more. What a run may do is set with -D:
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
#ifndef ORDERS
#define ORDERS 1    /* writes of the operator that change only the order */
#endif

#define NOBODY 0
#define A 1
#define B 2
#define C 3   /* gets the region when A is revoked, or B does */

mtype = { Up, Fenced, Dead };
mtype life = Up;                      /* of A: a fenced node makes no step (fence.Deadline) */

/* The Lease of the region. */
byte holder = A;
byte version = 1;

/* PUTs of A that are under way, and what A waits for. */
#define SLOTS 3
byte putHolder[SLOTS];                /* 0: the slot is empty */
byte putVersion[SLOTS];
byte asked;                           /* slot of the PUT whose answer A waits for */
mtype = { Idle, Sent, Taken, Conflict, Unknown };
mtype result = Idle;

mtype = { Simulating, Committing, Looking, Settling, Evicted };
mtype a = Simulating;
byte seenHolder, seenVersion = 1;     /* the newest Lease that A was shown (fence.ledger) */
bool bSimulates, cSimulates;

byte moves = MOVES, lost = LOST, faults = FAULTS, orders = ORDERS;

#define aSimulates (life == Up && a == Simulating)

inline oneSimulates() { assert(aSimulates + bSimulates + cSimulates <= 1) }

inline atRest() {
	assert(aSimulates + bSimulates + cSimulates == 1);
	assert(life == Dead || a == Simulating || a == Evicted)
}

/* fence.Regions.write: the deadline is compared here; from now on the PUT may land whenever it likes. */
inline put(who) {
	if
	:: putHolder[0] == 0 -> asked = 0
	:: putHolder[0] != 0 && putHolder[1] == 0 -> asked = 1
	:: else -> assert(putHolder[2] == 0); asked = 2
	fi;
	putHolder[asked] = who;
	putVersion[asked] = seenVersion;
	result = Sent;
	printf("A: PUT holder %d at version %d\n", who, seenVersion)
}

active proctype NodeA() {
end:
	do
	/* Cut: the region is frozen, B has staged it. */
	:: atomic { life == Up && a == Simulating && moves > 0 -> moves--; a = Committing; put(B) }
	:: atomic { moves > 0 -> moves = 0 }
	:: atomic { life == Up && result == Sent && lost > 0 -> lost--; result = Unknown; printf("A: no answer\n") }
	:: atomic { life == Up && a == Committing && result == Taken -> a = Evicted; result = Idle }
	:: atomic { life == Up && a == Settling && result == Taken -> a = Simulating; result = Idle; printf("A: settled, thaws\n"); oneSimulates() }
	:: atomic { life == Up && (result == Conflict || result == Unknown) -> a = Looking; result = Idle }
	/* GET */
	:: atomic { life == Up && a == Looking && result == Idle ->
		seenHolder = holder; seenVersion = version;
		printf("A: GET holder %d at version %d\n", holder, version);
		if
		:: seenHolder != A -> a = Evicted
#ifdef THAW_ON_GET
		:: seenHolder == A -> a = Simulating; printf("A: thaws\n"); oneSimulates()
#else
		:: seenHolder == A -> a = Settling
#endif
		fi }
	:: atomic { life == Up && a == Settling && result == Idle -> put(A) }
	/* The watch shows a newer Lease before the next cut. */
	:: atomic { life == Up && a == Simulating && seenVersion != version -> seenVersion = version }
	od
}

#ifdef BLIND_PUT
#define counts(slot) true
#else
#define counts(slot) (version == putVersion[slot])
#endif

#define lands(slot) atomic { putHolder[slot] != 0 -> \
		if \
		:: counts(slot) -> holder = putHolder[slot]; version++; if :: result == Sent && asked == slot -> result = Taken :: else -> skip fi; \
			printf("the Lease names %d at version %d\n", holder, version) \
		:: else -> if :: result == Sent && asked == slot -> result = Conflict :: else -> skip fi; printf("a PUT is refused\n") \
		fi; \
		putHolder[slot] = 0; putVersion[slot] = 0 }

active proctype Network() {
end:
	do
	:: lands(0)
	:: lands(1)
	:: lands(2)
	od
}

/* B and C see by their watch that they hold the region, when they like, and begin. */
active proctype NodeB() {
end:
	atomic { holder == B -> bSimulates = true; printf("B simulates\n"); oneSimulates() }
}

active proctype NodeC() {
end:
	atomic { holder == C -> cSimulates = true; printf("C simulates\n"); oneSimulates() }
}

#ifdef FREES_THE_FENCED
#define mayFree (life != Up && holder == A)
#else
#define mayFree (life == Dead && holder == A)
#endif

active proctype Operator() {
	byte read = 0;
end:
	do
	:: atomic { orders > 0 -> orders--; version++; printf("the operator changes the order\n") }
	:: atomic { orders > 0 -> orders = 0 }
	/* A region whose holder is not a live session is freed: read, then written at the version that was read. */
	:: atomic { mayFree && read == 0 -> read = version }
	:: atomic { read != 0 ->
		if
		:: version == read -> holder = NOBODY; version++; printf("the operator frees the region\n")
		:: else -> skip
		fi;
		read = 0 }
	/* The order names B or C, which takes what is free. */
	:: atomic { holder == NOBODY -> holder = B; version++; printf("B takes the region\n") }
	:: atomic { holder == NOBODY -> holder = C; version++; printf("C takes the region\n") }
	od
}

active proctype Fate() {
end:
	do
	:: atomic { life == Up && faults > 0 -> faults--; life = Fenced; printf("*** A is fenced\n") }
	:: atomic { faults > 0 -> faults = 0 }
	:: atomic { life == Fenced -> life = Up; printf("*** A is back\n"); oneSimulates() }
	:: atomic { life == Fenced -> life = Dead; printf("*** A is revoked\n") }
	od
}

active proctype Rest() { atomic { timeout -> atRest() } }
