package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MaintenanceSpec says when planned disruptions may start. One starts only when its estimated time fits what is left of
// the window; what has started finishes. status.nextWindow shows which window is open, or opens next.
type MaintenanceSpec struct {
	// windows are the times when what is confined may start; where they overlap they are one. No windows: it may start at
	// any time but in the exclusions.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Windows []MaintenanceWindow `json:"windows,omitempty"`
	// exclusions are times when nothing that is confined starts, whatever the windows say.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Exclusions []MaintenanceExclusion `json:"exclusions,omitempty"`
	// confine lists what waits for a window: BoundaryMoves, Rollouts, Rebalances. Unset means all of them. To confine
	// nothing, remove windows and exclusions. This version starts boundary moves only.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Confine []DisruptionKind `json:"confine,omitempty"`
	// announceSeconds before a window opens in which something is going to start, status.nextWindow turns to Announced and
	// an event says so. Unset means no announcement.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	AnnounceSeconds int32 `json:"announceSeconds,omitempty"`
	// override lifts windows and exclusions for a while.
	// +optional
	Override *MaintenanceOverride `json:"override,omitempty"`
}

// MaintenanceWindow is a recurring time in which planned disruptions may start.
type MaintenanceWindow struct {
	// name is how status, events and messages call the window.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="the name of a window may hold only a-z, 0-9 and '-', e.g. nightly"
	Name string `json:"name"`
	// cron is when the window opens, by the clock of timeZone: minute, hour, day, month, weekday. With
	// both days restricted, either suffices, as in crontab(5), where a day that begins with * is not restricted: "0 4 */2 * 0"
	// is the Sundays with an odd date. A time that a change of the clocks skips opens the window at
	// the first instant after it; one that comes twice opens it the first time only. Condition Stalled says what is wrong
	// with an expression that cannot be read; until it is corrected nothing that is confined starts,
	// unless override lifts the windows.
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ')",message="cron may not name a time zone: set timeZone of the window"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="cron must be five fields, not a shorthand with '@', e.g. \"30 4 * * *\" for 04:30 each day"
	Cron string `json:"cron"`
	// timeZone is a name of the IANA time zone database, e.g. Europe/Berlin. Unset means UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="timeZone Local is that of the operator's machine: name one of the IANA time zone database, e.g. Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
	// durationSeconds is how long the window stays open, in seconds that pass, whatever the clocks show meanwhile.
	// +required
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	DurationSeconds int32 `json:"durationSeconds"`
}

// MaintenanceExclusion is a time in which no planned disruption starts.
// +kubebuilder:validation:XValidation:rule="self.endTime > self.startTime",message="endTime of an exclusion must be after its startTime"
type MaintenanceExclusion struct {
	// name is how status and messages call the exclusion.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="the name of an exclusion may hold only a-z, 0-9 and '-', e.g. launch"
	Name string `json:"name"`
	// startTime is the first instant of the exclusion, e.g. "2026-12-18T00:00:00Z".
	// +required
	StartTime metav1.Time `json:"startTime"`
	// endTime is the first instant after it.
	// +required
	EndTime metav1.Time `json:"endTime"`
}

// MaintenanceOverride lifts windows and exclusions for a while, for an edit that must not wait.
type MaintenanceOverride struct {
	// executionTime is Immediate: until endTime whatever is confined may start at once, whether or not it fits, and whether
	// or not the windows can be read. NextWindow is as if there were no override.
	// +required
	ExecutionTime ExecutionTime `json:"executionTime"`
	// endTime is when the override is over by itself. It stays over, so it can be left in the manifest.
	// +required
	EndTime metav1.Time `json:"endTime"`
	// reason is shown wherever the override explains why something did not wait: in status.nextWindow, in the condition
	// AssignmentConverged and in the event WindowOverridden.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
}
