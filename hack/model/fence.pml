/*
 * The fence of one node: its session Lease, who may take it, and what that means for a region that it holds.
 *
 *   Two processes may live under the node's name, 0 and 1. 0 runs in pod P and holds the session and the region. 1 starts in
 *   the same pod after 0 has ended, or in pod Q, while 0 may run on behind a forced deletion. H is another node, which takes
 *   the region once it is free.
 *
 * Time is counted in ticks, which may come between any two steps. A renewed process may act for S ticks from before it sent
 * the renewal; who watches a Lease must see it stand for D. S and D are the worst that clock rates make of the times of the
 * spec: 10 s on a slow clock and 15 s on a fast one are the same 12.5 s if both are wrong by a fifth. So S = D, and one tick
 * less on either side is wrong.
 *
 * There are no version numbers: a PUT counts if the Lease has not changed since its sender saw it, so each copy and each PUT
 * under way is marked stale when it does. Comments name the Go function that a step stands for; README.md says what is left
 * out.
 *
 * Checked after every step that may break them: oneActs(), that a commit is made before the deadline only, that an
 * observation counts no time in which nobody could renew, and that no incarnation is used twice.
 */
#define S 2
#ifndef D
#define D 2
#endif
#ifndef NUMBERS
#define NUMBERS 3   /* incarnations that are given out */
#endif
#ifndef DELETIONS
#define DELETIONS 0 /* of the session Lease, by an administrator */
#endif
#ifndef OUTAGES
#define OUTAGES 0   /* of the API server */
#endif

/* ---- the API server ---------------------------------------------------------------------------------------------- */

bool up = true;                       /* no request lands while it is away */

/* The session Lease. */
#define NONE 0
#define P 1
#define Q 2
#define LOST 3                        /* v1alpha1.LostHolder: it stands in for one that was deleted */
bool exists = true;
byte holder = P;
byte number = 1;                      /* leaseTransitions */
byte by;                              /* acquireTime: which process took it last, 2 for none of them */
byte highest = 1;                     /* status.highestEpoch; the most that was ever given out */
bool twice;                           /* an incarnation was given out again */

/* The region Lease: the incarnation that holds it, 0 if nobody does. */
#define H 9
byte region = 1;

/* ---- the processes of the node ----------------------------------------------------------------------------------- */

mtype = { Off, Waiting, Holding, Leaving, Gone };
mtype phase[2];
bool paused[2];                       /* stopped in the middle of whatever it did: its clock goes on */
byte pod[2];
byte mine[2];                         /* tenure.incarnation */
byte left[2];                         /* Deadline: ticks until it has passed */
bool owns[2];                         /* the table that it acts by says that it holds the region (fence.ledger) */
bool knows[2];                        /* renewal.lease is the present version */
bool verify[2];                       /* renewal.verify */

/* The PUT of the session Lease that a process waits for, and one that it gave up and that may still land. */
mtype = { Nothing, Renew, Take, Release };
mtype = { UnderWay, Done, Conflict };
mtype asked[2] = Nothing;
mtype result[2] = UnderWay;
bool fresh[2];                        /* of the PUT: it shows the present version; of its answer: that is it still */
byte age[2];                          /* ticks since it was sent */
byte got[2];                          /* the number that a take got */
mtype late[2] = Nothing;              /* shows the present version, or is forgotten */
bool taking[2];                       /* a PUT of the region Lease that shows its present version */

/* Who watches the session Lease stand: process 1 before it takes it (fence.observation), the operator (liveness.Observer). */
#define OPERATOR 2
#define WATCHERS 3
bool looked[WATCHERS];                /* a read was answered since the last tick */
bool same[WATCHERS];                  /* what was seen is the present version */
byte stood[WATCHERS];                 /* for so many ticks */

/* The operator's writes under way; each shows the present version. */
bool revoking, freeing;
#ifdef BLIND_REVOKE
bool wantsRevoke;
#endif
/* What it knows of pod P: it is being deleted; container 0 of it has ended. */
bool deleting, endSeen;
byte deletions = DELETIONS;
byte outages = OUTAGES;

/* What is checked: for how many ticks in a row the Lease stood while the API server could have been reached. */
bool reachable = true;
byte silence = D;

#ifdef STALE_FLAG
bool flag[2];                         /* set by a goroutine that watches the clock, once it runs */
#define valid(p) (!flag[p])
#else
#define valid(p) (left[p] > 0)
#endif
#ifdef RELEASE_FIRST
#define inOffice(p) (phase[p] == Holding || phase[p] == Leaving)
#else
#define inOffice(p) (phase[p] == Holding)
#endif
#define runs(p)  (phase[p] != Off && phase[p] != Gone && !paused[p])
#define lives(p) (inOffice(p) && !paused[p] && valid(p))   /* relays, serves sockets */
#define acts(p)  (lives(p) && owns[p])                     /* simulates the region, saves it */

/* Invariant 1, for the sessions of one node and for the region. */
inline oneActs() {
	assert(lives(0) + lives(1) <= 1);
	assert(acts(0) + acts(1) + (region == H) <= 1)
}

/* Fewer states: what a process that is gone was called matters only as long as something of it may land. */
inline forget(p) { mine[p] = (phase[p] == Gone && late[p] == Nothing && !taking[p] -> 0 : mine[p]) }

/* Every copy of the session Lease is an old version now. */
inline changed() {
	knows[0] = false; knows[1] = false;
	fresh[0] = false; fresh[1] = false;
	late[0] = Nothing; late[1] = Nothing;
	same[1] = false; same[OPERATOR] = false;
	stood[1] = 0; stood[OPERATOR] = 0;
	revoking = false;
	silence = (OUTAGES > 0 -> 0 : D); reachable = up;
	forget(0); forget(1)
}

inline regionChanged() {
	taking[0] = false; taking[1] = false; freeing = false;
	forget(0); forget(1)
}

/* A PUT of a process takes effect. */
inline apply(p, what) {
	if
	:: what == Renew -> holder = pod[p]; number = mine[p]
	:: what == Take ->
		number++;
		twice = twice || number <= highest;
		highest = (number > highest -> number : highest);
		holder = pod[p]; by = p;
		printf("the session is number %d, of process %d\n", number, p)
	:: what == Release -> holder = NONE; printf("the session is released\n")
	fi;
	assert(!twice);
	changed()
}

/* The process is over: what it sent may land. */
inline give(p) {
	if
	:: asked[p] != Nothing && result[p] == UnderWay && fresh[p] -> late[p] = asked[p]
	:: else -> skip
	fi;
	asked[p] = Nothing; result[p] = UnderWay; fresh[p] = false; age[p] = 0; got[p] = 0
}

inline finish(p) {
	give(p);
	phase[p] = Gone; paused[p] = false; same[p] = false; stood[p] = 0; looked[p] = false;
	forget(p); left[p] = 0; owns[p] = false; knows[p] = false; verify[p] = false
#ifdef STALE_FLAG
	; flag[p] = true
#endif
}

inline put(p, what) {
	asked[p] = what; result[p] = UnderWay; fresh[p] = knows[p]; age[p] = 0
}

/* Session.extend, with a deadline that counts from before the renewal was sent. */
inline extend(p) {
#ifdef DEADLINE_FROM_ANSWER
	left[p] = S;
#else
	left[p] = (S - age[p] > left[p] -> S - age[p] : left[p]);
#endif
#ifdef STALE_FLAG
	flag[p] = false;
#endif
	oneActs()
}


#define free(p) (holder == NONE || holder == pod[p])
#ifdef ANOTHER_POD_AT_ONCE
#define mayTake(p) true
#else
#define mayTake(p) (free(p) || looked[p] && same[p] && stood[p] >= D)
#endif

/* A read of the session Lease by who watches it. */
inline look(w) {
	looked[w] = true;
	if
	:: !same[w] -> same[w] = true; stood[w] = 0
	:: else -> skip
	fi
}

/* ---- what a process does ----------------------------------------------------------------------------------------- */

proctype Node(byte p) {
end:
	do
	/* Session.renew: a write, also past the deadline: a frozen node thaws if nobody took over. */
	:: d_step { runs(p) && phase[p] == Holding && left[p] < S && asked[p] == Nothing && !verify[p] -> put(p, Renew) }
	:: d_step { runs(p) && result[p] == Done && asked[p] == Renew ->
		knows[p] = fresh[p];
		if
		:: phase[p] == Holding -> extend(p)
		:: else -> skip
		fi;
		asked[p] = Nothing; result[p] = UnderWay; fresh[p] = false; age[p] = 0 }
	:: d_step { runs(p) && result[p] == Conflict && asked[p] == Renew -> give(p); verify[p] = true }
	/* No answer: it may have been taken, or may be later. */
	:: d_step { runs(p) && asked[p] != Nothing && late[p] == Nothing -> give(p); knows[p] = (knows[p] && phase[p] == Holding) }
	/* renewal.answered to a read: the same incarnation and holder, or the session is lost. A missing Lease says nothing. */
	:: d_step { runs(p) && phase[p] == Holding && verify[p] && up && exists ->
		verify[p] = false;
		if
		:: holder == pod[p] && number == mine[p] ->
			knows[p] = true;
#ifdef READ_EXTENDS
			left[p] = S; oneActs()
#else
			skip
#endif
#ifdef THAWS_AFTER_ANOTHER
		:: else -> knows[p] = true
#else
		:: else -> printf("process %d: the session is lost\n", p); finish(p)
#endif
		fi }
	:: d_step { runs(p) && phase[p] == Holding && verify[p] && up && !exists -> verify[p] = false; knows[p] = false }

	/* A commit point: it compares the clock with the deadline itself. */
	:: d_step { acts(p) -> assert(left[p] > 0) }
#ifdef STALE_FLAG
	:: d_step { runs(p) && left[p] == 0 && !flag[p] -> flag[p] = true }
#endif

	/* Regions.take: free, or an earlier incarnation's. Regions.write compares the deadline before it sends. */
	:: d_step { runs(p) && phase[p] == Holding && left[p] > 0 && up && region < mine[p] -> taking[p] = true }
	/* The watch, or an answer, shows who holds the region. */
	:: d_step { runs(p) && phase[p] == Holding && owns[p] != (region == mine[p]) -> owns[p] = (region == mine[p]); oneActs() }

	/* Session.Release: the deadline is given up first. */
	:: d_step { runs(p) && phase[p] == Holding && asked[p] == Nothing && knows[p] ->
		phase[p] = Leaving;
#ifndef RELEASE_FIRST
		left[p] = 0;
#endif
		put(p, Release) }
	:: d_step { runs(p) && phase[p] == Leaving -> finish(p); printf("process %d stops\n", p) }

	/* A pause, at any point; a crash. */
	:: d_step { runs(p) -> paused[p] = true; printf("*** process %d is paused\n", p) }
	:: d_step { paused[p] -> paused[p] = false; printf("*** process %d goes on\n", p); oneActs() }
	:: d_step { phase[p] != Off && phase[p] != Gone -> finish(p); printf("*** process %d dies\n", p) }

	/* acquisition.decide. */
	:: d_step { runs(p) && phase[p] == Waiting && asked[p] == Nothing && up && exists && number < NUMBERS && mayTake(p) ->
		knows[p] = true; put(p, Take) }
	:: d_step { runs(p) && phase[p] == Waiting && up && exists && !free(p) -> look(p) }
	:: d_step { runs(p) && result[p] == Done && asked[p] == Take ->
		phase[p] = Holding; mine[p] = got[p]; got[p] = 0; knows[p] = fresh[p];
		asked[p] = Nothing; result[p] = UnderWay; fresh[p] = false;
		extend(p); age[p] = 0;
		same[p] = false; stood[p] = 0; looked[p] = false }
	:: d_step { runs(p) && result[p] == Conflict && asked[p] == Take -> give(p) }
	od
}

/* ---- everybody else ---------------------------------------------------------------------------------------------- */

inline lands(p) {
	if
	:: fresh[p] && exists -> apply(p, asked[p]); result[p] = Done; fresh[p] = true; got[p] = (asked[p] == Take -> number : 0)
	:: else -> result[p] = Conflict; age[p] = 0
	fi
}

proctype Server() {
end:
	do
	:: d_step { up && asked[0] != Nothing && result[0] == UnderWay -> lands(0) }
	:: d_step { up && asked[1] != Nothing && result[1] == UnderWay -> lands(1) }
	:: d_step { up && late[0] != Nothing -> apply(0, late[0]) }
	:: d_step { up && late[1] != Nothing -> apply(1, late[1]) }
	:: d_step { up && taking[0] -> region = mine[0]; regionChanged(); printf("number %d takes the region\n", region) }
	:: d_step { up && taking[1] -> region = mine[1]; regionChanged(); printf("number %d takes the region\n", region) }
	:: d_step { up && revoking -> holder = NONE; changed(); printf("the session is revoked\n") }
	:: d_step { up && freeing -> region = 0; regionChanged(); printf("the region is free\n") }
	/* The order names another node. */
	:: d_step { up && region == 0 -> region = H; regionChanged(); printf("H takes the region\n"); oneActs() }
	:: d_step { up && outages > 0 -> outages--; up = false; printf("*** outage\n") }
	:: d_step { !up -> up = true; reachable = true; printf("*** the API server is back\n") }
	:: d_step { exists && deletions > 0 -> deletions--; exists = false; holder = NONE; changed(); printf("*** the session lease is deleted\n") }
	od
}

/* scene.tenureOf: a session is over if its Lease has a later incarnation, or the same one and no holder. A lost Lease proves
   nothing. */
#ifdef ABSENCE_IS_DEATH
#define over (region != 0 && region != H && (!exists || holder == LOST || region < number || region == number && holder == NONE))
#else
#define over (region != 0 && region != H && exists && holder != LOST && (region < number || region == number && holder == NONE))
#endif

/* provenDead: the very pod that holds the session is being deleted, and its container ended after the session began. */
#ifdef REVOKE_ON_CONTAINER_DEATH
#define ended (endSeen && holder == P)
#else
#ifdef REVOKE_ON_EARLIER_DEATH
#define ended (endSeen && deleting && holder == P)
#else
#ifdef REVOKE_BY_POD_NAME
#define ended (endSeen && deleting && holder != NONE && holder != LOST)
#else
#define ended (endSeen && deleting && holder == P && by == 0)
#endif
#endif
#endif

proctype Operator() {
end:
	do
	:: d_step { up && exists && holder != NONE -> look(OPERATOR) }
	/* A failed read, another leader: every observation starts anew. What was sent before may land. */
	:: d_step { same[OPERATOR] -> same[OPERATOR] = false; stood[OPERATOR] = 0; looked[OPERATOR] = false }
	/* revokeSilentSessions: one compare-and-swap on what stood. */
	:: d_step { up && exists && holder != NONE && looked[OPERATOR] && same[OPERATOR] && stood[OPERATOR] >= D ->
		assert(silence >= D);
		revoking = true }
	:: d_step { up && exists && ended -> revoking = true; printf("the operator knows that the pod has ended\n") }
#ifdef BLIND_REVOKE
	:: d_step { wantsRevoke -> wantsRevoke = false; holder = NONE; changed() }
	:: d_step { revoking -> wantsRevoke = true }
#endif
	/* settleRegions */
	:: d_step { up && over -> freeing = true }
	/* ensureSessionLeases: above every number, and held by nobody who could write it. */
	:: d_step { up && !exists && highest < NUMBERS ->
		exists = true;
#ifdef NUMBER_RESTARTS
		number = 0;
#else
		highest++; number = highest;
#endif
		by = 2;
#ifdef LOST_IS_FREE
		holder = NONE;
#else
		holder = LOST;
#endif
		changed(); printf("the session lease is made again, as number %d\n", number) }
	:: d_step { phase[0] == Gone && !endSeen -> endSeen = true }
	:: d_step { !deleting -> deleting = true }
	od
}

/* Process 1 starts: in the same pod when its predecessor has ended, or in another. */
proctype Kubelet() {
end:
	do
	:: d_step { phase[1] == Off && phase[0] == Gone && !deleting ->
		phase[1] = Waiting; pod[1] = P; printf("*** process 1 starts in the same pod\n") }
	:: d_step { phase[1] == Off ->
		phase[1] = Waiting; pod[1] = Q; printf("*** process 1 starts in another pod\n") }
	od
}

inline tickProcess(p) {
#ifdef SUSPENDED_CLOCK
	if
	:: left[p] > 0 && !paused[p] -> left[p]--
	:: else -> skip
	fi;
#else
	if
	:: left[p] > 0 -> left[p]--
	:: else -> skip
	fi;
#endif
	if
	:: (asked[p] == Renew || asked[p] == Take) && result[p] != Conflict && age[p] < S -> age[p]++
	:: else -> skip
	fi
}

/* Only time between answered reads counts. */
inline tickWatcher(w) {
	if
#ifdef COUNTS_UNREAD
	:: same[w] && stood[w] < D -> stood[w]++
#else
	:: looked[w] && same[w] && stood[w] < D -> stood[w]++
	:: !looked[w] -> same[w] = false; stood[w] = 0
#endif
	:: else -> skip
	fi;
	looked[w] = false
}

proctype Clock() {
end:
	do
	:: d_step {
		tickProcess(0); tickProcess(1);
		tickWatcher(1); tickWatcher(OPERATOR);
		if
		:: OUTAGES == 0 -> silence = D
		:: OUTAGES > 0 && reachable && silence < D -> silence++
		:: OUTAGES > 0 && !reachable -> silence = 0
		:: else -> skip
		fi;
		reachable = up }
	od
}

init {
	atomic {
		phase[0] = Holding; phase[1] = Off;
		pod[0] = P; mine[0] = 1; left[0] = S; owns[0] = true; knows[0] = true;
#ifdef STALE_FLAG
		flag[1] = true;
#endif
		run Node(0); run Node(1); run Server(); run Operator(); run Kubelet(); run Clock()
	}
}
