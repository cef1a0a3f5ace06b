package connect

import (
	"fmt"
	"strconv"
	"strings"
)

// Report is what a server says about itself.
type Report struct {
	// Server is "valkey" or "redis", or what else the server calls itself. Empty: it does not say, as the embedded server
	// for development.
	Server string
	// Version of the server, in its own counting.
	Version string
	// Role is "master" for a primary, "slave" for a replica.
	Role string
	// Replicas is the number of replicas that are connected.
	Replicas int
	// Loading is set while the server reads its data. Nothing but the server, its version and its role is known then.
	Loading bool
	// AOF tells whether the server appends each write to a file, and Fsync when that is forced to the disk: "always",
	// "everysec" or "no"; empty if the server does not let us ask.
	AOF   bool
	Fsync string
	// AOFFailed is set while the last write to that file failed.
	AOFFailed bool
	// MaxMemory, in bytes, is where the server begins to do as Eviction says. 0: never.
	MaxMemory int64
	// Eviction is the server's maxmemory-policy.
	Eviction string
	// WaitAOF tells whether a writer may wait until its write is on the disk.
	WaitAOF bool
	// StoreID says whose store it is, as Identify wrote it. Empty: nobody's yet.
	StoreID string
}

// Development tells whether it is the embedded server, which keeps nothing beyond its own life.
func (r Report) Development() bool { return r.Version == "" }

// Primary tells whether it takes writes.
func (r Report) Primary() bool { return r.Role == rolePrimary || r.Development() }

// Name is server and version in words.
func (r Report) Name() string {
	if r.Development() {
		return "the embedded development server"
	}
	return r.Server + " " + r.Version
}

// Losing says, as the beginning of a sentence, why the server loses records although it runs well or cannot take them; no
// replica helps against it. Empty if it does not.
func (r Report) Losing() string {
	switch {
	case r.Development():
		return ""
	case r.AOFFailed:
		return "its last write to the append-only file failed, so its disk may be full"
	case r.MaxMemory > 0 && strings.HasPrefix(r.Eviction, "allkeys-"):
		return fmt.Sprintf("its maxmemory-policy %s throws records away when memory is short", r.Eviction)
	}
	return ""
}

// Risking says why a crash of the server may lose what it acknowledged. Empty if it does not.
func (r Report) Risking() string {
	switch {
	case r.Development():
		return "it is the embedded development server, which keeps everything in memory only"
	case !r.AOF:
		return "appendonly is off, so a crash loses everything since the last snapshot"
	case r.Fsync != "" && r.Fsync != fsyncAlways:
		return fmt.Sprintf("appendfsync is %q, so a crash loses the last writes", r.Fsync)
	}
	return ""
}

// Synced tells whether all that the server has replied to is on its disk: nobody has to wait for it. A server that does not
// let us ask is not believed.
func (r Report) Synced() bool { return r.AOF && r.Fsync == fsyncAlways && !r.AOFFailed }

const (
	rolePrimary = "master"
	fsyncAlways = "always"
)

// readInfo reads the answer to INFO.
func readInfo(text string) Report {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); found && !strings.HasPrefix(line, "#") {
			fields[name] = value
		}
	}
	r := Report{
		Server: fields["server_name"], Version: fields["valkey_version"], Role: fields["role"],
		Loading: fields["loading"] == "1", AOF: fields["aof_enabled"] == "1",
		AOFFailed: fields["aof_enabled"] == "1" && fields["aof_last_write_status"] == "err",
		Eviction:  fields["maxmemory_policy"],
	}
	if r.Version == "" {
		r.Version = fields["redis_version"]
	}
	if r.Server == "" && r.Version != "" {
		r.Server = "redis"
	}
	r.Replicas, _ = strconv.Atoi(fields["connected_slaves"])
	r.MaxMemory, _ = strconv.ParseInt(fields["maxmemory"], 10, 64)
	return r
}
