package agentcmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/internal/target"
)

// Settings are the settings of every platform's agent.
type Settings struct {
	Cluster        string
	Shadow         bool
	Service        connection.Settings
	SyncPeriod     time.Duration
	Workers        int
	RequestTimeout time.Duration
	DrainTimeout   time.Duration
	AdminAddress   string
	Log            daemon.LogSettings
	Record         Record
	// SourcesFile has the metric sources, StateFolder the status across restarts. Empty: none.
	SourcesFile, StateFolder string
}

// Defaults returns the settings of an agent without flags.
func Defaults() Settings {
	return Settings{
		Service:    connection.Settings{Server: connection.DefaultServer},
		SyncPeriod: agent.DefaultPeriod, Workers: agent.DefaultWorkers, RequestTimeout: agent.DefaultRequestTimeout, DrainTimeout: agent.DefaultDrainTimeout,
		AdminAddress: "127.0.0.1:9092",
		Log:          daemon.DefaultLog(),
		Record:       defaultRecord(),
	}
}

// List are the settings, with a platform's own.
func (s *Settings) List(own []config.Setting) config.List {
	return config.List{
		{Title: "Platform", Settings: append([]config.Setting{
			config.String(&s.SourcesFile, "sources-file", "`file` of the metric sources that queries may name, YAML or JSON; empty means none"),
			config.String(&s.StateFolder, "state-dir", "`folder` for the state that "+StatusPath+" shows across restarts (last scales, start of holds); empty keeps none"),
		}, own...)},
		{Title: "Server", Settings: append([]config.Setting{
			config.String(&s.Cluster, "cluster", "`name` of this cluster at the server; required. Agents of different clusters must use different names", checkCluster),
		}, s.Service.List("the server")...)},
		{Title: "Reconciles", Settings: []config.Setting{
			config.Bool(&s.Shadow, "shadow", "decide beside the acting controller with a history of its own; apply and write nothing"),
			config.Duration(&s.SyncPeriod, "sync-period", "time between two reconciles of an object that sets no period, 1s to 1h", config.Within(pace.MinPeriod, pace.MaxPeriod)),
			config.Int(&s.Workers, "workers", "maximum concurrent reconciles", config.Positive),
			config.Duration(&s.RequestTimeout, "request-timeout", "timeout of one request to the server, and of one read of the cluster", config.Positive),
			config.Duration(&s.DrainTimeout, "drain-timeout", "how long shutdown waits for reconciles in flight", config.Positive),
		}},
		{Title: "Admin address, log and recording", Settings: append(append([]config.Setting{
			config.String(&s.AdminAddress, daemon.AdminFlag, "`host:port` of the admin server, plain HTTP without credentials: /metrics, /healthz, /readyz, "+StatusPath+", /shadow, /debug/pprof/; empty disables it", config.AddressOrNone),
		}, s.Log.List()...), s.Record.list()...)},
	}
}

func checkCluster(name string) error {
	switch {
	case name == "":
		return errors.New("is required")
	case !target.IsSegment(name):
		return fmt.Errorf("cluster %q: must be 1 to 253 characters of [A-Za-z0-9._-], and not ., .. or -", name)
	}
	return nil
}
