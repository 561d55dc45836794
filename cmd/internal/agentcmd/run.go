package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/status"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/buildmetric"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
)

// run runs until the context ends and reconciles in flight are done.
func (c *command) run(ctx context.Context) error {
	log, err := c.Log.Open()
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	TuneMemory(ctx)
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(buildmetric.New())
	if c.program.Libraries == nil {
		metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	client, err := c.openService()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	platform, err := c.open(metrics, log)
	if err != nil {
		return err
	}
	defer platform.close()
	for _, note := range platform.Notes {
		log.Warn(note)
	}
	kept, err := c.openBook(log)
	if err != nil {
		return err
	}
	return c.serve(ctx, platform.Platform, client, kept, metrics, log)
}

// newLoop returns the loop over a platform, and what runs it: a driver, or the platform's own queue.
func (c *command) newLoop(platform *Platform, noted agent.Watched, client *setpoint.Client, observers []agent.Observer, metrics prometheus.Registerer, log *zap.Logger) (loop *agent.Loop, run func(context.Context) error, err error) {
	service := agent.Service{Calls: client, Stream: client.Stream(min(c.Workers, setpoint.DefaultInFlight)), Redial: client.Conn().ResetConnectBackoff, Announce: announce(client)}
	options := agent.Options{
		Cluster: c.Cluster, Acts: platform.Acts, Sources: platform.Kinds, Period: c.SyncPeriod, RequestTimeout: c.RequestTimeout,
		Shadow: c.Shadow, Observers: observers, Registerer: metrics, Log: log,
	}
	if platform.Queue == nil {
		driver, err := agent.NewDriver(noted, service, options, agent.DriverOptions{Workers: c.Workers, DrainTimeout: c.DrainTimeout})
		if err != nil {
			return nil, nil, cli.BadInput(err)
		}
		return driver.Loop, driver.Run, nil
	}
	if loop, err = agent.New(noted, service, options, platform.Queue.QueueOptions); err != nil {
		return nil, nil, cli.BadInput(err)
	}
	return loop, func(ctx context.Context) error { return platform.Queue.Run(ctx, loop) }, nil
}

// serve runs the loop, its companions, and the admin address.
func (c *command) serve(ctx context.Context, platform *Platform, client *setpoint.Client, kept *status.Book, metrics *prometheus.Registry, log *zap.Logger) error {
	observers, closeRecording, err := c.Record.Open(client, metrics, log)
	if err != nil {
		return cli.BadInput(err)
	}
	defer closeRecording()
	loop, run, err := c.newLoop(platform, kept.Note(platform.Platform), client, observers, metrics, log)
	if err != nil {
		return err
	}
	identity := &status.Identity{Ask: platform.ClusterUID, Timeout: c.RequestTimeout, Log: log}
	standby := func() string {
		if platform.Standby == nil {
			return ""
		}
		return platform.Standby()
	}
	ready := func() error {
		if err := identity.Problem(); err != nil || platform.Ready == nil || standby() != "" {
			return err
		}
		return platform.Ready()
	}
	metrics.MustRegister(ReadyMetric(ready))
	now := func() *status.Status {
		s := c.status(kept, ready, standby())
		if s.Problem == "" && platform.Problem != nil {
			s.Problem = platform.Problem()
		}
		if s.Problem == "" {
			s.Problem = loop.Rival()
		}
		return s
	}
	gatherer := prometheus.Gatherer(metrics)
	if c.program.Libraries != nil {
		gatherer = prometheus.Gatherers{metrics, c.program.Libraries}
	}
	pages := statusPages(now, &ahead{targets: setpointv1.NewTargetServiceClient(client.Conn()), cluster: c.Cluster})
	pages = append(pages, pagesOf(gatherer, ready, loop.Shadows)...)
	var admin net.Listener
	if c.AdminAddress != "" {
		if admin, err = net.Listen("tcp", c.AdminAddress); err != nil {
			return fmt.Errorf("--%s: %w", daemon.AdminFlag, err)
		}
	}
	defer daemon.ServePages(admin, daemon.Routes(pages), nil, log)()
	defer daemon.TellSupervisor(ctx, log)()
	log.Info("agent starts", zap.String("version", cli.Version()), zap.String("platform", c.program.Platform),
		zap.String("cluster", c.Cluster), zap.Bool("shadow", c.Shadow))
	err = runAll(ctx, platform, kept, func(ctx context.Context) error {
		uid, ok := identity.Await(ctx)
		if !ok {
			return nil
		}
		if uid != "" {
			loop.SetClusterUID(uid)
		}
		if platform.Lead != nil {
			return platform.Lead(ctx, run)
		}
		return run(ctx)
	})
	if err == nil {
		log.Info("agent stopped")
	}
	return err
}

// runAll runs the loop and its companions. The first failure stops all.
func runAll(ctx context.Context, platform *Platform, kept *status.Book, run func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	var failed error // of a companion; read after it ended
	if platform.Run != nil {
		beside.Go(func() {
			if err := platform.Run(ctx); err != nil && ctx.Err() == nil {
				failed = err
				cancel()
			}
		})
	}
	// Outcomes of reconciles in flight are stored while the agent stops.
	keeping, done := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	keeper.Go(func() { kept.Keep(keeping) })
	defer keeper.Wait()
	defer done()
	err := run(ctx)
	cancel()
	beside.Wait()
	return errors.Join(failed, err)
}
