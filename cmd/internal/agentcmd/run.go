package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/buildmetric"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/internal/deadline"
)

// run runs until the context ends and reconciles in flight are done.
func (c *command) run(ctx context.Context) error {
	log, err := daemon.NewLog(c.LogLevel, c.LogFormat)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	TuneMemory()
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(buildmetric.New(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	client, err := c.OpenService()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	platform, err := c.open(metrics, log)
	if err != nil {
		return err
	}
	defer platform.close()
	kept, err := openBook(c.stateFolder, c.Cluster)
	if err != nil {
		return cli.BadInput(err)
	}
	kept.log = log
	return c.serve(ctx, platform.Platform, client, kept, metrics, log)
}

// serve runs the loop, its companions, and the admin address.
func (c *command) serve(ctx context.Context, platform *Platform, client *setpoint.Client, kept *book, metrics *prometheus.Registry, log *zap.Logger) error {
	noted := &noted{Watched: platform.Watched, book: kept}
	noted.teller, _ = platform.Watched.(agent.Teller)
	observers, closeRecording, err := c.Record.Open(nil, client, metrics, log)
	if err != nil {
		return cli.BadInput(err)
	}
	defer closeRecording()
	driver, err := agent.NewDriver(noted, agent.Service{
		Calls: client, Stream: client.Stream(c.InFlight()), Redial: client.Conn().ResetConnectBackoff,
	}, agent.Options{
		Cluster: c.Cluster, Sources: platform.Kinds, Period: c.SyncPeriod, RequestTimeout: c.RequestTimeout,
		Shadow: c.Shadow, Observers: observers, Registerer: metrics, Log: log,
	}, agent.DriverOptions{Workers: c.Workers, DrainTimeout: c.DrainTimeout})
	if err != nil {
		return cli.BadInput(err)
	}
	identity := &identity{ask: platform.ClusterUID, timeout: c.RequestTimeout, log: log}
	standby := func() string {
		if platform.Standby == nil {
			return ""
		}
		return platform.Standby()
	}
	ready := func() error {
		if err := identity.problem(); err != nil || platform.Ready == nil || standby() != "" {
			return err
		}
		return platform.Ready()
	}
	metrics.MustRegister(ReadyMetric(ready))
	status := func() *Status {
		s := c.status(kept, ready, standby())
		if s.Problem == "" && platform.Problem != nil {
			s.Problem = platform.Problem()
		}
		if seen := driver.Rival(); s.Problem == "" && time.Since(seen) < 5*time.Minute {
			s.Problem = fmt.Sprintf("another caller asks the service about the same targets, last seen %s ago: of two agents each undoes the counts of the other; keep one", age(s.At, seen))
		}
		return s
	}
	pages := append([]daemon.Page{}, platform.Pages...)
	pages = append(pages, statusPages(status)...)
	pages = append(pages, Pages(metrics, ready, "whether the objects have been read", driver.Shadows)...)
	return c.Serve(ctx, pages, log, func(ctx context.Context) error {
		log.Info("agent starts", zap.String("version", cli.Version()), zap.String("platform", c.program.Platform),
			zap.String("cluster", c.Cluster), zap.Bool("shadow", c.Shadow))
		err := c.runAll(ctx, platform, driver, identity, kept)
		if err == nil {
			log.Info("agent stopped")
		}
		return err
	})
}

// runAll runs the loop and its companions. The first failure stops all.
func (c *command) runAll(ctx context.Context, platform *Platform, driver *agent.Driver, identity *identity, kept *book) error {
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
	keeper.Go(func() { kept.keep(keeping) })
	defer keeper.Wait()
	defer done()
	var err error
	if uid, ok := identity.await(ctx); ok {
		driver.SetClusterUID(uid)
		if platform.Lead != nil {
			err = platform.Lead(ctx, driver.Run)
		} else {
			err = driver.Run(ctx)
		}
	}
	cancel()
	beside.Wait()
	return errors.Join(failed, err)
}

// identity is the cluster's, as far as it is known.
type identity struct {
	ask     func(ctx context.Context) (string, error)
	timeout time.Duration
	log     *zap.Logger

	failure atomic.Pointer[error]
	known   atomic.Bool
}

// The first and the longest pause before the cluster is asked again.
const (
	firstIdentityRetry = time.Second
	lastIdentityRetry  = 30 * time.Second
)

// await retries until there is an answer; false: the context ended.
func (i *identity) await(ctx context.Context) (uid string, ok bool) {
	for wait := firstIdentityRetry; i.ask != nil; wait = min(2*wait, lastIdentityRetry) {
		uid, err := i.once(ctx)
		if err == nil {
			i.known.Store(true)
			return uid, true
		}
		if ctx.Err() != nil {
			return "", false
		}
		i.failure.Store(&err)
		i.log.Warn("cluster not reached, trying again", zap.Duration("in", wait), zap.Error(err))
		if !deadline.Sleep(ctx, wait) {
			return "", false
		}
	}
	return "", ctx.Err() == nil
}

func (i *identity) once(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	return i.ask(ctx)
}

// problem is why the cluster is not known yet, nil: it is.
func (i *identity) problem() error {
	if i.ask == nil || i.known.Load() {
		return nil
	}
	if err := i.failure.Load(); err != nil {
		return fmt.Errorf("the cluster can't be reached: %w", *err)
	}
	return errors.New("the cluster has not answered yet")
}
