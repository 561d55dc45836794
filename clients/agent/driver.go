package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/internal/deadline"
)

// Watched is a Platform that a Driver can watch.
type Watched interface {
	Platform
	// Watch calls changed for each existing object, and then for each that is created,
	// changed or deleted, until the context ends. It returns earlier only if it fails; it is
	// then called again. changed does not block.
	Watch(ctx context.Context, changed func(Key)) error
}

// DriverOptions are the settings of a Driver, beside those of its loop. The zero value of a
// field is its default.
type DriverOptions struct {
	// Workers is how many reconciles run at once. Default: DefaultWorkers.
	Workers int
	// DrainTimeout bounds how long a stop waits for reconciles in flight. Default:
	// DefaultDrainTimeout.
	DrainTimeout time.Duration
}

// Driver reconciles a platform's objects, each once per period, with a queue of its own.
type Driver struct {
	*Loop
	platform Watched
	options  DriverOptions
	queue    *queue
}

// NewDriver returns a driver. It connects to nothing.
func NewDriver(p Watched, service Service, options Options, driver DriverOptions) (*Driver, error) {
	driver.Workers = cmp.Or(driver.Workers, DefaultWorkers)
	driver.DrainTimeout = cmp.Or(driver.DrainTimeout, DefaultDrainTimeout)
	if driver.Workers < 0 || driver.DrainTimeout < 0 {
		return nil, errors.New("workers and timeouts must be above 0")
	}
	d := &Driver{platform: p, options: driver, queue: newQueue()}
	var err error
	if d.Loop, err = New(p, service, options, QueueOptions{Wake: d.queue.add}); err != nil {
		return nil, err
	}
	return d, nil
}

// Run reconciles until the context ends and reconciles in flight are done. It fails if they
// exceed DrainTimeout.
func (d *Driver) Run(ctx context.Context) error {
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watching, reconciles sync.WaitGroup
	watching.Go(func() { d.Probe(background) })
	watching.Go(func() { d.watch(background) })
	watching.Go(func() { d.Announce(background) })
	defer watching.Wait()
	defer cancel()
	free := make(chan struct{}, d.options.Workers)
	for {
		select {
		case <-ctx.Done():
			return d.drain(&reconciles)
		case free <- struct{}{}:
		}
		key, ok := d.queue.take(ctx)
		if !ok {
			return d.drain(&reconciles)
		}
		reconciles.Go(func() {
			wait, again := d.Reconcile(ctx, key)
			d.queue.done(key, wait, again)
			<-free
		})
	}
}

// drain waits for reconciles in flight.
func (d *Driver) drain(reconciles *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		reconciles.Wait()
		close(done)
	}()
	timer := time.NewTimer(d.options.DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("reconciles in flight were not done within %s", d.options.DrainTimeout)
	}
}

// The pauses before a failed watch starts again: short at first, then longer and longer.
const (
	firstWatchRetry = time.Second
	lastWatchRetry  = 30 * time.Second
)

// watch keeps the platform's watch going.
func (d *Driver) watch(ctx context.Context) {
	for retry := firstWatchRetry; ; retry = min(2*retry, lastWatchRetry) {
		began := time.Now()
		err := d.platform.Watch(ctx, func(key Key) { d.queue.add(key) })
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastWatchRetry {
			retry = firstWatchRetry
		}
		d.once.say(d.log, zapcore.WarnLevel, "objects are not watched, trying again", fmt.Sprint(err), zap.Duration("in", retry), zap.Error(err))
		if !deadline.Sleep(ctx, retry) {
			return
		}
	}
}
