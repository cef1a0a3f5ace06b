package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Limits of a World that CEL and the operator both rely on.
const (
	// MaxNodes is the highest number of zone nodes of a World.
	MaxNodes = 64
	// MaxColumns bounds the grid along x and, with MaxRows, its regions to 4096.
	MaxColumns = 64
	// MaxRows bounds the grid along y.
	MaxRows = 64
	// MaxNameLength is the longest name of a World, so that every child's name stays a DNS label.
	MaxNameLength = 40
)

// AssignmentPolicy says who decides which node owns which region.
// +kubebuilder:validation:Enum=Balanced;Manual
type AssignmentPolicy string

const (
	// AssignmentBalanced lets the operator plan; areas are pins.
	AssignmentBalanced AssignmentPolicy = "Balanced"
	// AssignmentManual takes the areas as they are; they must cover the grid.
	AssignmentManual AssignmentPolicy = "Manual"
)

// ManagementPolicy says whether the operator acts on a World.
// +kubebuilder:validation:Enum=Managed;Paused
type ManagementPolicy string

const (
	// ManagementManaged lets the operator act.
	ManagementManaged ManagementPolicy = "Managed"
	// ManagementPaused stops everything but failover.
	ManagementPaused ManagementPolicy = "Paused"
)

// GatewayServiceType is the type of the Service that clients connect to.
// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
type GatewayServiceType string

// StoreMode says how an external store is made.
// +kubebuilder:validation:Enum=Standalone;Sentinel
type StoreMode string

const (
	// StoreStandalone is one server.
	StoreStandalone StoreMode = "Standalone"
	// StoreSentinel is a primary found through its sentinels.
	StoreSentinel StoreMode = "Sentinel"
)

// DisruptionKind is one kind of planned disruption.
// +kubebuilder:validation:Enum=BoundaryMoves;Rollouts;Rebalances
type DisruptionKind string

const (
	// DisruptionBoundaryMoves are regions that live nodes give to others because the assignment says so.
	DisruptionBoundaryMoves DisruptionKind = "BoundaryMoves"
	// DisruptionRollouts are restarts of zone nodes.
	DisruptionRollouts DisruptionKind = "Rollouts"
	// DisruptionRebalances are regions that move for the sake of load.
	DisruptionRebalances DisruptionKind = "Rebalances"
)

// ExecutionTime says when what was planned may start.
// +kubebuilder:validation:Enum=NextWindow;Immediate
type ExecutionTime string

const (
	// ExecutionNextWindow waits for a maintenance window.
	ExecutionNextWindow ExecutionTime = "NextWindow"
	// ExecutionImmediate does not wait.
	ExecutionImmediate ExecutionTime = "Immediate"
)

// World declares one seamless torus of square regions and the zone nodes that simulate it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.nodes.replicas,statuspath=.status.nodes.replicas,selectorpath=.status.nodes.selector
// +kubebuilder:resource:shortName=wld,categories={spatialcells}
// +kubebuilder:printcolumn:name="Regions",type=string,JSONPath=`.status.regions.summary`,description="Regions owned by a live session, of all"
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodes.summary`,description="Ready zone nodes, of those asked for"
// +kubebuilder:printcolumn:name="Players",type=integer,JSONPath=`.status.players`,description="Players connected"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether players can play"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Moving",type=integer,JSONPath=`.status.regions.moving`,priority=1,description="Regions on their way from one live node to another"
// +kubebuilder:printcolumn:name="Away",type=integer,JSONPath=`.status.regions.away`,priority=1,description="Regions with another node than the assignment names"
// +kubebuilder:printcolumn:name="Window",type=string,JSONPath=`.status.nextWindow.state`,priority=1
// +kubebuilder:printcolumn:name="Opens",type=string,JSONPath=`.status.nextWindow.startTime`,priority=1
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="AssignmentAccepted")].status`,priority=1,description="Whether the last edit of the assignment can be carried out"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="metadata.name is longer than 40 characters: choose a shorter one, the names of the zone nodes are made from it"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only a-z, 0-9 and '-': Services are named after it"
type World struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state. It is the user's: the operator never writes it.
	// +required
	Spec WorldSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status WorldStatus `json:"status,omitzero"`
}

// WorldList is a list of Worlds.
// +kubebuilder:object:root=true
type WorldList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []World `json:"items"`
}

// WorldSpec is the desired state of a World.
// +kubebuilder:validation:XValidation:rule="self.nodes.replicas == 0 || !has(self.assignment.areas) || self.assignment.areas.all(a, a.ordinal < self.nodes.replicas)",message="assignment.areas names an ordinal that nodes.replicas does not have: edit those areas first, or raise nodes.replicas (0 stops the World and keeps its areas)"
// +kubebuilder:validation:XValidation:rule="!has(self.assignment.areas) || self.assignment.areas.all(a, a.column < self.grid.columns && a.row < self.grid.rows)",message="assignment.areas has an area that starts beyond the grid: column must be below grid.columns and row below grid.rows (an area may wrap past the edge, but starts inside)"
// +kubebuilder:validation:XValidation:rule="!has(self.assignment.areas) || self.assignment.areas.all(a, (!has(a.width) || a.width <= self.grid.columns) && (!has(a.height) || a.height <= self.grid.rows))",message="assignment.areas has an area larger than the grid: width may be at most grid.columns and height at most grid.rows"
// +kubebuilder:validation:XValidation:rule="(has(self.store) && has(self.store.external)) == (has(oldSelf.store) && has(oldSelf.store.external))",message="store cannot be switched between managed and external, the entities would stay behind: restore the former store, or make a new World"
// +kubebuilder:validation:XValidation:rule="has(self.seedSecretName) == has(oldSelf.seedSecretName) && (!has(self.seedSecretName) || self.seedSecretName == oldSelf.seedSecretName)",message="seedSecretName is immutable, another seed is another terrain: restore it, or make a new World"
// +kubebuilder:validation:XValidation:rule="(has(self.store) && has(self.store.managed) && has(self.store.managed.storage)) == (has(oldSelf.store) && has(oldSelf.store.managed) && has(oldSelf.store.managed.storage))",message="store.managed.storage is immutable, the volume is made: restore it; to enlarge the volume edit the claim data-<world>-store-0"
type WorldSpec struct {
	// grid is the partition of the torus into regions. It never changes.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="grid is immutable, every stored position depends on it: restore it, or make a new World"
	Grid GridSpec `json:"grid"`
	// nodes describes the zone nodes.
	// +required
	Nodes NodesSpec `json:"nodes"`
	// assignment says which node owns which region.
	// +optional
	// +kubebuilder:default={policy:Balanced}
	Assignment AssignmentSpec `json:"assignment,omitzero"`
	// seedSecretName names a Secret whose key "seed" holds the terrain seed, in the World's namespace. When it is not
	// set, the operator makes "<world>-seed". The Secret outlives the World.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SeedSecretName string `json:"seedSecretName,omitempty"`
	// fencing holds the timings of the session Lease.
	// +optional
	// +kubebuilder:default={leaseDurationSeconds:15,renewDeadlineSeconds:10,renewPeriodSeconds:2}
	Fencing FencingSpec `json:"fencing,omitzero"`
	// failover says what happens to the regions of a dead node.
	// +optional
	// +kubebuilder:default={redistributionDelaySeconds:30}
	Failover FailoverSpec `json:"failover,omitzero"`
	// handoff bounds the moves of regions between live nodes.
	// +optional
	// +kubebuilder:default={maxConcurrentRegions:4,regionTimeoutSeconds:60}
	Handoff HandoffSpec `json:"handoff,omitzero"`
	// maintenance says when planned disruptions may start. Failover never waits. Without it nothing waits.
	// +optional
	Maintenance *MaintenanceSpec `json:"maintenance,omitempty"`
	// gateway is how clients reach the World.
	// +optional
	// +kubebuilder:default={serviceType:ClusterIP,port:8080}
	Gateway GatewaySpec `json:"gateway,omitzero"`
	// store is where entities are kept: in a Valkey that the operator runs (managed, also when store is not set), or in one
	// of your own (external). Condition StoreReady says how it is.
	// +optional
	Store *StoreSpec `json:"store,omitempty"`
	// managementPolicy is Managed, or Paused: the operator then does nothing but failover.
	// +optional
	// +kubebuilder:default=Managed
	ManagementPolicy ManagementPolicy `json:"managementPolicy,omitempty"`
}

// GridSpec is the partition of the torus.
type GridSpec struct {
	// columns is the number of regions from west to east.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Columns int32 `json:"columns"`
	// rows is the number of regions from north to south.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Rows int32 `json:"rows"`
	// regionEdgeChunks is the edge of a region in chunks of 32 m.
	// +optional
	// +kubebuilder:default=250
	// +kubebuilder:validation:Maximum=4096
	// +kubebuilder:validation:XValidation:rule="self >= 15",message="regionEdgeChunks must be at least 15: the border bands of opposite edges of a smaller region would overlap"
	RegionEdgeChunks int32 `json:"regionEdgeChunks,omitempty"`
}

// NodesSpec describes the zone nodes.
type NodesSpec struct {
	// replicas is the number of zone nodes. 0 saves and stops the World; nothing moves.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Replicas *int32 `json:"replicas,omitempty"`
	// image of the zone node. Unset means the operator's default at the time the World was made; status.image shows it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// resources of the zone node's container.
	// +optional
	Resources Resources `json:"resources,omitzero"`
	// template is laid over the pod template that the operator renders, as a strategic merge patch. The operator checks
	// it by a strict dry run; what it refuses is in condition NodesUpToDate. It may add and change all but the labels, the
	// service account and the zone node's command and args.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Template *runtime.RawExtension `json:"template,omitempty"`
	// drainTimeoutSeconds bounds one drain, and so the grace of a zone node's pod.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	DrainTimeoutSeconds int32 `json:"drainTimeoutSeconds,omitempty"`
}

// Resources of a container, as in a pod.
type Resources struct {
	// requests are what the scheduler reserves, e.g. cpu and memory.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Requests map[string]resource.Quantity `json:"requests,omitempty"`
	// limits are what the container may not exceed.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Limits map[string]resource.Quantity `json:"limits,omitempty"`
}

// AssignmentSpec says which node owns which region.
// +kubebuilder:validation:XValidation:rule="self.policy != 'Manual' || has(self.areas)",message="assignment.policy Manual needs assignment.areas: paint the whole grid, or use policy Balanced"
type AssignmentSpec struct {
	// policy is Balanced (the operator plans; areas pin) or Manual (areas must cover the grid).
	// +optional
	// +kubebuilder:default=Balanced
	Policy AssignmentPolicy `json:"policy,omitempty"`
	// areas are painted in order: a later area wins over an earlier one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Areas []Area `json:"areas,omitempty"`
}

// Area gives a rectangle of regions to a node. It may wrap around the torus.
type Area struct {
	// ordinal is the ordinal of the zone node.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	Ordinal int32 `json:"ordinal"`
	// column is the westmost column.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	Column int32 `json:"column"`
	// row is the northmost row.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	Row int32 `json:"row"`
	// width is the number of columns. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Width int32 `json:"width,omitempty"`
	// height is the number of rows. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Height int32 `json:"height,omitempty"`
	// reason is shown wherever the area explains an owner.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason,omitempty"`
}

// FencingSpec holds the timings of a session Lease.
// +kubebuilder:validation:XValidation:rule="self.leaseDurationSeconds * 2 >= self.renewDeadlineSeconds * 3",message="fencing.leaseDurationSeconds must be at least 1.5 times renewDeadlineSeconds: raise it, or lower the deadline"
// +kubebuilder:validation:XValidation:rule="self.renewDeadlineSeconds >= self.renewPeriodSeconds * 3",message="fencing.renewDeadlineSeconds must be at least 3 times renewPeriodSeconds: raise it, or renew more often"
type FencingSpec struct {
	// leaseDurationSeconds is how long the operator must see a session unchanged before it revokes it.
	// +optional
	// +kubebuilder:default=15
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=300
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`
	// renewDeadlineSeconds after the last renewal was sent, a zone node is fenced: frozen and silent.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=200
	RenewDeadlineSeconds int32 `json:"renewDeadlineSeconds,omitempty"`
	// renewPeriodSeconds is the time between two renewals.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	RenewPeriodSeconds int32 `json:"renewPeriodSeconds,omitempty"`
}

// FailoverSpec says what happens to the regions of a dead node.
type FailoverSpec struct {
	// redistributionDelaySeconds is how long freed regions wait for their node before live nodes get them.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	RedistributionDelaySeconds *int32 `json:"redistributionDelaySeconds,omitempty"`
}

// HandoffSpec bounds the moves of regions between live nodes.
type HandoffSpec struct {
	// maxConcurrentRegions is how many regions of the World move at once.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	MaxConcurrentRegions int32 `json:"maxConcurrentRegions,omitempty"`
	// regionTimeoutSeconds after a region was ordered away and has not gone, the order is taken back: the region stays
	// where it is, and is ordered again after a wait that doubles with each failure, from 10 s to 10 minutes.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=3600
	RegionTimeoutSeconds int32 `json:"regionTimeoutSeconds,omitempty"`
}

// GatewaySpec is how clients reach the World.
type GatewaySpec struct {
	// serviceType is the type of the Service "<world>-gateway".
	// +optional
	// +kubebuilder:default=ClusterIP
	ServiceType GatewayServiceType `json:"serviceType,omitempty"`
	// port of that Service.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// annotations of that Service, for load balancers.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]string `json:"annotations,omitempty"`
	// tokenKeysSecretName names a Secret with the public keys (PEM or JWKS) that sign players' tokens. Unset means a
	// development key that the operator makes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TokenKeysSecretName string `json:"tokenKeysSecretName,omitempty"`
	// allowedOrigins are the web origins that may open a session from a browser, e.g. "https://play.example.org".
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	AllowedOrigins []string `json:"allowedOrigins,omitempty"`
}
