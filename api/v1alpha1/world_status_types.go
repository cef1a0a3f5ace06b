package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WorldStatus is the observed state of a World.
type WorldStatus struct {
	// conditions are those that conditions.go of this package documents.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// nodes counts the zone nodes.
	// +optional
	Nodes NodesStatus `json:"nodes,omitzero"`
	// regions counts the regions.
	// +optional
	Regions RegionsStatus `json:"regions,omitzero"`
	// moves is what is left of the edit of the assignment, or of a return after a failover, that is being carried out.
	// Unset when every region is where the assignment says.
	// +optional
	Moves *MovesStatus `json:"moves,omitempty"`
	// nextWindow is the maintenance window that is open, or the one that opens next. Unset when planned disruptions need
	// not wait.
	// +optional
	NextWindow *WindowStatus `json:"nextWindow,omitempty"`
	// players is the number of players connected, as the zone nodes last reported it. While nothing else changes it is
	// written at most each 30 seconds.
	// +optional
	Players int32 `json:"players"`
	// zoneNodes has one row for each zone node.
	// +optional
	// +listType=map
	// +listMapKey=ordinal
	// +kubebuilder:validation:MaxItems=64
	ZoneNodes []ZoneNodeRow `json:"zoneNodes,omitempty"`
	// image is the image of the zone nodes, chosen once when the spec names none.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// highestEpoch is a fencing token that no region Lease of this World exceeds. A lost Lease is made again above it.
	// +optional
	HighestEpoch int32 `json:"highestEpoch,omitempty"`
	// storeID is the id of the store that has this World's entities, written once. The store holds the same under the key
	// spatialcells:store; nobody starts on a store that does not.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	StoreID string `json:"storeID,omitempty"`
}

// NodesStatus counts zone nodes.
type NodesStatus struct {
	// replicas is the number of pods that exist.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of ready pods.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// selector selects the pods, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`
	// summary is "<ready>/<wanted>", for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Summary string `json:"summary,omitempty"`
}

// RegionsStatus counts regions.
type RegionsStatus struct {
	// total is columns times rows.
	// +optional
	Total int32 `json:"total"`
	// owned is the number of regions whose Lease a live session holds.
	// +optional
	Owned int32 `json:"owned"`
	// moving is the number of regions that their holder was ordered to give to another node.
	// +optional
	Moving int32 `json:"moving"`
	// away is the number of regions held by another node than the assignment says.
	// +optional
	Away int32 `json:"away"`
	// summary is "<owned>/<total>", for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Summary string `json:"summary,omitempty"`
}

// MovesStatus is how far the regions are on their way to the nodes that the assignment names.
type MovesStatus struct {
	// planned is the number of regions that were away when the spec was last edited, and of those that got away since.
	// +optional
	Planned int32 `json:"planned"`
	// moved is how many of them are where they should be.
	// +optional
	Moved int32 `json:"moved"`
	// backingOff is the number of regions whose order was taken back and that wait before they are ordered again.
	// +optional
	BackingOff int32 `json:"backingOff"`
	// estimatedSeconds is how long all planned moves were expected to take, once they may start.
	// +optional
	EstimatedSeconds int32 `json:"estimatedSeconds"`
	// borderBefore is the length of the borders between nodes, in edges of regions, before the edit.
	// +optional
	BorderBefore int32 `json:"borderBefore"`
	// borderAfter is what it will be when every region is where the assignment says.
	// +optional
	BorderAfter int32 `json:"borderAfter"`
}

// WindowState says what a maintenance window does.
// +kubebuilder:validation:Enum=Closed;Announced;Open;Overridden
type WindowState string

const (
	// WindowClosed: it opens at startTime.
	WindowClosed WindowState = "Closed"
	// WindowAnnounced: it opens within maintenance.announceSeconds, and something is going to start then.
	WindowAnnounced WindowState = "Announced"
	// WindowOpen: what is confined may start until endTime.
	WindowOpen WindowState = "Open"
	// WindowOverridden: maintenance.override lifts windows and exclusions until endTime, for its reason.
	WindowOverridden WindowState = "Overridden"
)

// WindowStatus is the maintenance window that is open, or the one that opens next.
type WindowStatus struct {
	// name of the window; of several that overlap, the one that opens first. Empty while an override lifts them, and
	// between exclusions of a World without windows.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// state is Closed, Announced, Open or Overridden.
	// +required
	State WindowState `json:"state"`
	// reason is the one that maintenance.override gives, while that lifts the windows.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// startTime is when it opens. Unset while it is open.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is when it closes again. Unset when no end is in sight.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}

// ZoneNodeRow is one zone node in the status of its World.
type ZoneNodeRow struct {
	// ordinal of the zone node.
	// +required
	Ordinal int32 `json:"ordinal"`
	// session is "<world>-zone-<ordinal>#<incarnation>", empty when nobody holds the session Lease.
	// +optional
	// +kubebuilder:validation:MaxLength=80
	Session string `json:"session,omitempty"`
	// regions is the number of regions that this session holds.
	// +optional
	Regions int32 `json:"regions"`
	// players is the number of players connected to this zone node.
	// +optional
	Players int32 `json:"players"`
	// state says in one word what the zone node is doing.
	// +optional
	State ZoneNodeState `json:"state,omitempty"`
}

// ZoneNodeState says in one word what a zone node is doing.
// +kubebuilder:validation:Enum=Waiting;Starting;Live;Draining;Silent;Revoked
type ZoneNodeState string

const (
	// ZoneNodeWaiting: there is no pod.
	ZoneNodeWaiting ZoneNodeState = "Waiting"
	// ZoneNodeStarting: the pod exists and has not taken its session.
	ZoneNodeStarting ZoneNodeState = "Starting"
	// ZoneNodeLive: the session is held and renewed.
	ZoneNodeLive ZoneNodeState = "Live"
	// ZoneNodeDraining: live, and its regions go elsewhere.
	ZoneNodeDraining ZoneNodeState = "Draining"
	// ZoneNodeSilent: the session is held, and was not renewed for longer than the renew deadline.
	ZoneNodeSilent ZoneNodeState = "Silent"
	// ZoneNodeRevoked: the operator took the session back.
	ZoneNodeRevoked ZoneNodeState = "Revoked"
)
