package v1alpha1

// Conditions of a World.
const (
	// ConditionReady: players can play. True when RegionsOwned and StoreReady are. Waiting for something planned never
	// lowers it. Its reason and message are those of what is in the way.
	ConditionReady = "Ready"
	// ConditionAssignmentAccepted: spec.assignment can be carried out. While it is False the former assignment holds.
	ConditionAssignmentAccepted = "AssignmentAccepted"
	// ConditionRegionsOwned: every region is held by a live session.
	ConditionRegionsOwned = "RegionsOwned"
	// ConditionAssignmentConverged: every region is held by the node that the assignment names.
	ConditionAssignmentConverged = "AssignmentConverged"
	// ConditionNodesUpToDate: every zone node runs what spec.nodes says. While it is False by InvalidTemplate the
	// former pods run on.
	ConditionNodesUpToDate = "NodesUpToDate"
	// ConditionFenceGuarded: the API server was seen to refuse a wrong write to a Lease. When False the World serves on
	// the other two locks.
	ConditionFenceGuarded = "FenceGuarded"
	// ConditionStoreReady: entities can be loaded and saved, and where that is.
	ConditionStoreReady = "StoreReady"
	// ConditionRebalancing: regions are being moved to even out the load.
	ConditionRebalancing = "Rebalancing"
	// ConditionStalled, for kstatus: only an edit will make progress.
	ConditionStalled = "Stalled"
	// ConditionReconciling, for kstatus: the operator is on its way to the spec.
	ConditionReconciling = "Reconciling"
)

// Conditions of a ZoneNode. ConditionReady is one of them: the node simulates under a session it holds.
const (
	// ConditionDrained: the node holds no region and takes none.
	ConditionDrained = "Drained"
)

// Conditions of a Rebalance.
const (
	// ConditionProposalReady: a proposal is up for approval.
	ConditionProposalReady = "ProposalReady"
)

// Reasons that say all is well.
const (
	// ReasonServing, of Ready: every region is owned and the store answers.
	ReasonServing = "Serving"
	// ReasonAccepted, of AssignmentAccepted: the assignment can be carried out.
	ReasonAccepted = "Accepted"
	// ReasonAllOwned, of RegionsOwned.
	ReasonAllOwned = "AllOwned"
	// ReasonConverged, of AssignmentConverged and Reconciling.
	ReasonConverged = "Converged"
	// ReasonUpToDate, of NodesUpToDate.
	ReasonUpToDate = "UpToDate"
	// ReasonProven, of FenceGuarded: the API server refused the wrong writes on the canary Lease.
	ReasonProven = "Proven"
	// ReasonNotStalled, of Stalled=False.
	ReasonNotStalled = "NotStalled"
	// ReasonIdle, of Rebalancing=False: nothing moves for the sake of load.
	ReasonIdle = "Idle"
)

// Reasons of AssignmentAccepted=False. Each is also a reason of Stalled=True.
const (
	// ReasonAreasLeaveHoles: policy Manual, and the areas do not cover the grid.
	ReasonAreasLeaveHoles = "AreasLeaveHoles"
	// ReasonAreaBeyondGrid: an area starts outside the grid or is larger than it.
	ReasonAreaBeyondGrid = "AreaBeyondGrid"
	// ReasonOrdinalBeyondReplicas: an area names a node that nodes.replicas does not have.
	ReasonOrdinalBeyondReplicas = "OrdinalBeyondReplicas"
	// ReasonMoreNodesThanRegions: some node could own nothing.
	ReasonMoreNodesThanRegions = "MoreNodesThanRegions"
	// ReasonNodeWithoutRegions: policy Manual, and the areas leave some node without a region.
	ReasonNodeWithoutRegions = "NodeWithoutRegions"
)

// Reasons of RegionsOwned=False, and so of Ready=False.
const (
	// ReasonWaitingForNodes: zone nodes have not taken their sessions yet.
	ReasonWaitingForNodes = "WaitingForNodes"
	// ReasonRegionsUnowned: regions are free, and live nodes are taking them.
	ReasonRegionsUnowned = "RegionsUnowned"
	// ReasonSessionRevoked: a node's session was revoked and its regions were freed; the message says which node, and
	// until when they wait for it.
	ReasonSessionRevoked = "SessionRevoked"
	// ReasonSessionSilent: a node's session was not renewed in time and is not revoked yet; the node is frozen.
	ReasonSessionSilent = "SessionSilent"
	// ReasonHibernated: nodes.replicas is 0.
	ReasonHibernated = "Hibernated"
	// ReasonDeleting: the World is being deleted.
	ReasonDeleting = "Deleting"
)

// Reasons of AssignmentConverged=False.
const (
	// ReasonMoving: regions are on their way; the message says how many have arrived and how many wait.
	ReasonMoving = "Moving"
	// ReasonWaitingForWindow: regions wait for a maintenance window; the message says for which, and until when.
	ReasonWaitingForWindow = "WaitingForWindow"
	// ReasonBackingOff: orders were taken back, and all that is left waits before it is tried again; the message names a
	// region, why, and until when.
	ReasonBackingOff = "BackingOff"
	// ReasonHolderAway: regions are with other nodes because the node that the assignment names does not live, is not
	// ready, or drains. They go home when it is back.
	ReasonHolderAway = "HolderAway"
	// ReasonHolderSilent: the node that has the regions does not renew; they move when it is back, or by failover.
	ReasonHolderSilent = "HolderSilent"
	// ReasonNoCapacity: the node that the assignment names is too slow already to take regions.
	ReasonNoCapacity = "NoCapacity"
)

// Reasons of NodesUpToDate=False.
const (
	// ReasonInvalidTemplate: nodes.template does not decode strictly, or the API server refuses the rendered pods. The
	// former pods run on. Also a reason of Stalled=True.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonRollingOut: zone nodes are being replaced, one after another.
	ReasonRollingOut = "RollingOut"
	// ReasonRolloutWaiting: a zone node should be replaced, and something forbids it now; the message says what.
	ReasonRolloutWaiting = "RolloutWaiting"
	// ReasonRolloutNotActedOn: zone nodes run an older template; delete a pod to replace it.
	ReasonRolloutNotActedOn = "RolloutNotActedOn"
	// ReasonScaling: zone nodes are being added or removed.
	ReasonScaling = "Scaling"
	// ReasonPodFailing: a zone node does not start; the message has its last state.
	ReasonPodFailing = "PodFailing"
)

// Reasons of FenceGuarded=False or Unknown.
const (
	// ReasonNotProven: the canary Lease was not tried yet.
	ReasonNotProven = "NotProven"
	// ReasonPoliciesNotInstalled: the operator could not install its admission policies; the message has the error.
	ReasonPoliciesNotInstalled = "PoliciesNotInstalled"
	// ReasonWrongWriteAccepted: the API server accepted a write on the canary Lease that it should have refused.
	ReasonWrongWriteAccepted = "WrongWriteAccepted"
)

// Reasons of StoreReady. ReasonProgressing, ReasonSecretMissing, ReasonNameConflict and ReasonRefused are among them too. While
// it is False no zone node is made; nodes that run go on: movement, sight and combat do not wait for the store.
const (
	// ReasonStoreReady, with True: the store answers, is this World's and keeps what it acknowledges.
	ReasonStoreReady = "Ready"
	// ReasonDevelopmentStore, with True: the store is the embedded server, which keeps everything in memory; its restart
	// loses it. The local cluster runs it where neither valkey-server nor redis-server is installed.
	ReasonDevelopmentStore = "DevelopmentStore"
	// ReasonUnreachable, with False: the store does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonWrongPassword, with False: the store refuses the user or the password, or the user may not do what is needed.
	ReasonWrongPassword = "WrongPassword"
	// ReasonUntrusted, with False: the certificate of the store is not signed by the authorities in caSecretName, or is for
	// another host.
	ReasonUntrusted = "Untrusted"
	// ReasonNotPrimary, with False: the server is a replica and takes no writes.
	ReasonNotPrimary = "NotPrimary"
	// ReasonNotDurable: a crash of the server may lose what it acknowledged. False for a managed store: the operator
	// configured it otherwise, so somebody or something interferes, and nothing else keeps the entities. True for an external
	// one, as a warning: replicas or a disk that survives may be what its owner relies on, the nodes are built to detect a
	// store that lost its tail, and refusing would stop a World for a choice that is its owner's. False for an external one
	// that throws records away when memory is short, or cannot write its file: no replica helps against that.
	ReasonNotDurable = "NotDurable"
	// ReasonWrongStore, with False: the store has the id of another World, or not the one in status.storeID. No zone node is
	// made and those that run are not touched, whatever else changes. Also a reason of Stalled=True.
	ReasonWrongStore = "WrongStore"
)

// Reasons of Stalled=True, besides those of what stalls.
const (
	// ReasonInvalidMaintenance: a window of spec.maintenance cannot be read; the message says which and why. Until it is
	// corrected nothing that is confined starts; everything else goes on.
	ReasonInvalidMaintenance = "InvalidMaintenance"
)

// Reasons that any condition may have.
const (
	// ReasonNotActedOn: what was asked for is accepted and kept, and this version does not act on it; the message says
	// what happens instead.
	ReasonNotActedOn = "NotActedOn"
	// ReasonNameConflict: an object of a name that the World needs exists and is not the World's; the message says
	// which. Also a reason of Stalled=True.
	ReasonNameConflict = "NameConflict"
	// ReasonSecretMissing: a Secret that the spec names, or a key in it, does not exist. Also a reason of Stalled=True.
	ReasonSecretMissing = "SecretMissing"
	// ReasonPaused: managementPolicy is Paused; only failover goes on.
	ReasonPaused = "Paused"
	// ReasonProgressing: the operator is on its way; the message says to what.
	ReasonProgressing = "Progressing"
	// ReasonRefused: the API server refused an object of the World; the message has its words. Also a reason of
	// Stalled=True.
	ReasonRefused = "Refused"
)

// Reasons of the conditions of a ZoneNode.
const (
	// ReasonSessionHeld, of Ready=True: the node simulates.
	ReasonSessionHeld = "SessionHeld"
	// ReasonStarting, of Ready=False: the node has no session yet.
	ReasonStarting = "Starting"
	// ReasonFenced, of Ready=False: the node could not renew in time; it is frozen.
	ReasonFenced = "Fenced"
	// ReasonStopping, of Ready=False: the node saves, releases and exits.
	ReasonStopping = "Stopping"
	// ReasonHoldsRegions, of Drained=False.
	ReasonHoldsRegions = "HoldsRegions"
	// ReasonEmpty, of Drained=True.
	ReasonEmpty = "Empty"
)
