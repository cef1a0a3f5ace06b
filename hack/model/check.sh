#!/usr/bin/env bash
# Checks the models in this folder with spin: every reachable state of the true ones, and a violation in every mutant.
#   hack/model/check.sh            all checks, CHECK_JOBS at a time (default 2)
#   hack/model/check.sh NAME       one check, with the trail of what it found
set -euo pipefail
cd "$(dirname "$0")"

# Name, model, what must come of it (holds or fails), and the flags; README.md says what each stands for.
checks=(
  "handed-on           handoff       holds -DTHIRD -DFAULTS=1 -DOFFERS=3"
  "store-read          handoff       fails -DFAULTS=2 -DOFFERS=2 -DSTORE_READ"
  "two-faults          handoff       holds -DFAULTS=2 -DOFFERS=2"
  "late-and-refused    handoff       holds -DFAULTS=2 -DOFFERS=1 -DREOFFERS=1 -DREFUSALS=1"
  "there-and-back      handoff       holds -DFAULTS=1 -DOFFERS=2 -DREOFFERS=1 -DREPLAYS=1"
  "back-and-refused    handoff       holds -DFAULTS=1 -DOFFERS=2 -DREFUSALS=1"
  "three-regions       handoff       holds -DFAULTS=0 -DOFFERS=3 -DREOFFERS=1 -DREFUSALS=1 -DTHIRD"
  "no-burn             handoff       fails -DFAULTS=1 -DOFFERS=2 -DREOFFERS=1 -DNO_BURN"
  "no-claiming-round   handoff       fails -DFAULTS=1 -DOFFERS=2 -DNO_CLAIMING_ROUND"
  "same-epoch-thaw     handoff       fails -DFAULTS=0 -DOFFERS=2 -DREOFFERS=1 -DREFUSALS=1 -DTHIRD -DSAME_EPOCH_THAW"
  "evict-before-accept handoff       fails -DFAULTS=0 -DOFFERS=1 -DREFUSALS=1 -DEVICT_BEFORE_ACCEPT"
  "no-durable          handoff       fails -DFAULTS=1 -DOFFERS=1 -DNO_DURABLE"
  "frozen-unlisted     handoff       fails -DFAULTS=1 -DOFFERS=2 -DREFUSALS=1 -DCLAIMING_OMITS_FROZEN"
  "book-unnamed        handoff       fails -DTHIRD -DFAULTS=1 -DOFFERS=3 -DBOOK_UNNAMED"
  "claiming-forgotten  handoff       fails -DFAULTS=1 -DOFFERS=1 -DCLAIMING_TEACHES_NOTHING"
  "orphan-at-once      handoff       fails -DTHIRD -DFAULTS=1 -DOFFERS=2 -DORPHAN_AT_ONCE"
  "heir-refuses-orphan handoff       fails -DTHIRD -DFAULTS=1 -DOFFERS=2 -DHEIR_REFUSES_ORPHAN"
  "burned-orphan       handoff       fails -DTHIRD -DFAULTS=1 -DOFFERS=3 -DBURNED_ORPHAN"
  "taken-back-at-once  handoff       fails -DTHIRD -DFAULTS=1 -DOFFERS=3 -DTAKEN_BACK_AT_ONCE"
  "at-once-there       handoff       holds -DFAULTS=1 -DOFFERS=2 -DORPHAN_AT_ONCE"
  "offer-outlives      handoff       fails -DFAULTS=1 -DOFFERS=2 -DORPHAN_AT_ONCE -DKEEPS_OFFER_OF_RETURNED"
  "dropped-forgotten   handoff       fails -DFAULTS=0 -DOFFERS=2 -DREOFFERS=1 -DDROP_FORGETS"
  "fence               fence         holds"
  "fence-deleted       fence         holds -DDELETIONS=1 -DNUMBERS=4"
  "fence-outage        fence         holds -DOUTAGES=1"
  "stale-flag          fence         fails -DSTALE_FLAG"
  "deadline-answered   fence         fails -DDEADLINE_FROM_ANSWER"
  "read-extends        fence         fails -DREAD_EXTENDS"
  "thaws-after-another fence         fails -DTHAWS_AFTER_ANOTHER"
  "suspended-clock     fence         fails -DSUSPENDED_CLOCK"
  "release-first       fence         fails -DRELEASE_FIRST"
  "another-pod-at-once fence         fails -DANOTHER_POD_AT_ONCE"
  "half-duration       fence         fails -DD=1"
  "counts-unread       fence         fails -DOUTAGES=1 -DCOUNTS_UNREAD"
  "blind-revoke        fence         fails -DBLIND_REVOKE"
  "container-death     fence         fails -DREVOKE_ON_CONTAINER_DEATH"
  "earlier-container   fence         fails -DREVOKE_ON_EARLIER_DEATH"
  "pod-by-name         fence         fails -DREVOKE_BY_POD_NAME"
  "absence-is-death    fence         fails -DDELETIONS=1 -DABSENCE_IS_DEATH"
  "lost-is-free        fence         fails -DDELETIONS=1 -DNUMBERS=4 -DLOST_IS_FREE"
  "number-restarts     fence         fails -DDELETIONS=1 -DNUMBER_RESTARTS"
  "commit              region_commit holds -DMOVES=2 -DLOST=2 -DCHANGES=3"
  "commit-revoked      region_commit holds -DMOVES=2 -DLOST=2 -DFAULTS=2 -DORDERS=2"
  "commit-heir         region_commit holds -DMOVES=2 -DLOST=1 -DFAULTS=1 -DDEATHS=1 -DORDERS=2"
  "thaw-on-get         region_commit fails -DTHAW_ON_GET"
  "blind-put           region_commit fails -DBLIND_PUT"
  "frees-the-fenced    region_commit fails -DFAULTS=1 -DFREES_THE_FENCED"
  "takes-while-frozen  region_commit fails -DTAKES_WHILE_FROZEN"
  "forgets-at-commit   region_commit fails -DDEATHS=1 -DFORGETS_AT_COMMIT"
  "kept-unoffered      region_commit fails -DDEATHS=1 -DKEPT_UNOFFERED"
  "any-stage           region_commit fails -DFAULTS=1 -DANY_STAGE"
  "drops-after-commit  region_commit fails -DFAULTS=1 -DDROPS_AFTER_COMMIT"
)

# Bounds of one search. One that hits a bound proves nothing and fails.
depth=100000    # steps
memory=2000     # MiB
patience=300    # seconds of processor time: the machine may be shared

cc="${CC:-cc}"
for program in spin "$cc"; do
  command -v "$program" >/dev/null && continue
  echo "model: $program is not installed; on Debian: apt-get install -y --no-install-recommends spin gcc libc6-dev" >&2
  exit 1
done

work="$(mktemp -d)"
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
models="$PWD"

# search NAME MODEL EXPECTED FLAG...: one line of result; status 0 if it is the expected one.
search() {
  local name="$1" model="$2" expected="$3" dir="$work/$1" began="$SECONDS" status=0
  shift 3
  mkdir "$dir"
  cd "$dir"
  cp "$models/$model.pml" .
  # Not optimised: that takes longer than most searches, but where there are many small states.
  local how="-O1"
  [ "$model" != handoff ] || how="-O0 -DCOLLAPSE"
  # shellcheck disable=SC2086 # several flags
  if ! { spin -a "$@" "$model.pml" && "$cc" $how -w -DSAFETY -DVECTORSZ=4096 -DMEMLIM="$memory" -o pan pan.c; } >build 2>&1; then
    cat build
    printf '%-20s does not compile\n' "$name"
    return 1
  fi
  (ulimit -t "$patience"; exec ./pan -m"$depth" -w20) >out 2>&1 || status=$?
  local states found
  states="$(awk '/states, stored/ {print $1; exit}' out)"
  found="$(grep -m1 '^pan:1:' out || true)"
  if [ -n "$found" ]; then
    found="$(blame "$@") after $states states"
  fi
  case "$expected" in
    holds) holds ;;
    fails) fails ;;
  esac
}

# blame names what the trail broke: the step it ends in says which assertions are meant.
blame() {
  case "$(spin -t "$@" "$model.pml" 2>/dev/null | sed -n 's/.*text of failed assertion: //p' | head -1)" in
    *'<=1))') echo "assertion: two act" ;;
    *nudges* | *Frozen*Nothing*) echo "assertion: frozen or kept for ever" ;;
    *'recordEpoch>=highest'*) echo "assertion: fell back to an old record" ;;
    *'recordEpoch<='*) echo "assertion: one acts that is not the newest" ;;
    *'>=newest'*) echo "assertion: one begins without what happened" ;;
    *'silence>='*) echo "assertion: an observation counts time in which nobody could renew" ;;
    *'twice'*) echo "assertion: an incarnation is given out twice" ;;
    *'left['*'>0))') echo "assertion: a fenced node commits" ;;
    *'==1))' | *claimed* | *==Dead*) echo "assertion: nobody acts" ;;
    *nfull*) echo "a channel of the model is too short" ;;
    *) grep -m1 '^pan:1:' out ;;
  esac
}

# holds and fails judge what search found, whose variables they use.
holds() {
  if [ -n "$found" ]; then
    line "VIOLATED: $found; see it with hack/model/check.sh $name"
  elif [ "$status" -gt 128 ] || ! grep -q 'errors: 0' out || grep -qiE 'max search depth too small|out of memory|memory limit|truncated|search not completed' out; then
    line "FAILED: the search was not exhaustive: $(bound)"
  else
    line "holds"
    return 0
  fi
  return 1
}

fails() {
  if [[ "$found" == assertion:* ]]; then
    line "found: $found"
    return 0
  fi
  line "SURVIVED: the mutant does nothing wrong that the model could see ($(bound))"
  return 1
}

bound() {
  if [ "$status" -gt 128 ]; then
    echo "$patience s of processor time were over"
  else
    grep -iE -m1 'max search depth|out of memory|memory limit|truncated|not completed' out || echo "see the flags of pan"
  fi
}

line() { printf '%-20s %9s states  %-6s %s\n' "$name" "${states:--}" "$((SECONDS - began))s" "$1"; }

if [ $# -gt 0 ]; then
  for check in "${checks[@]}"; do
    read -r -a words <<<"$check"
    [ "${words[0]}" = "$1" ] || continue
    status=0
    search "${words[@]}" || status=$?
    [ ! -f "$work/$1/${words[1]}.pml.trail" ] || (cd "$work/$1" && spin -t "${words[@]:3}" "${words[1]}.pml" | grep -v ' = ')
    exit "$status"
  done
  echo "model: no check is called $1" >&2
  exit 2
fi

running=0
for check in "${checks[@]}"; do
  if [ "$running" -ge "${CHECK_JOBS:-2}" ]; then
    wait -n || true
    running=$((running - 1))
  fi
  read -r -a words <<<"$check"
  (trap - EXIT; search "${words[@]}" || touch "$work/failed") &
  running=$((running + 1))
done
wait
[ ! -e "$work/failed" ]
