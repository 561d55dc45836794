package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Watched is a Platform that tells of its objects, for a Driver.
type Watched interface {
	Platform
	// Watch calls changed for each object there is, and then for each that comes, changes
	// or goes, until the context ends. It returns earlier only if it failed; it is then
	// called again. Calls of changed do not wait for anything.
	Watch(ctx context.Context, changed func(Key)) error
}

// DriverOptions are the settings of a Driver, beside those of its loop. The zero value of a
// field is its default.
type DriverOptions struct {
	// Workers is how many rounds run at once. Default: 32.
	Workers int
	// DrainTimeout bounds what a stop leaves to rounds in flight. Default: 20 s.
	DrainTimeout time.Duration
}

// Driver has the rounds of a platform's objects, each at its pace, with a queue of its own.
type Driver struct {
	*Loop
	platform Watched
	options  DriverOptions
	queue    *queue
}

// NewDriver returns a driver. Options.Wake is its own to set. It connects to nothing.
func NewDriver(p Watched, service Service, options Options, driver DriverOptions) (*Driver, error) {
	setDefault(&driver.Workers, 32)
	setDefault(&driver.DrainTimeout, 20*time.Second)
	if driver.Workers < 0 || driver.DrainTimeout < 0 {
		return nil, errors.New("workers and timeouts must be above 0")
	}
	d := &Driver{platform: p, options: driver, queue: newQueue()}
	options.Wake = d.queue.add
	var err error
	if d.Loop, err = New(p, service, options); err != nil {
		return nil, err
	}
	return d, nil
}

// Run has rounds until the context ends and those in flight are done. It is an error if
// they are not in time.
func (d *Driver) Run(ctx context.Context) error {
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watching, rounds sync.WaitGroup
	watching.Go(func() { d.Probe(background) })
	watching.Go(func() { d.watch(background) })
	defer watching.Wait()
	defer cancel()
	free := make(chan struct{}, d.options.Workers)
	for {
		select {
		case <-ctx.Done():
			return d.drain(&rounds)
		case free <- struct{}{}:
		}
		key, ok := d.queue.take(ctx)
		if !ok {
			return d.drain(&rounds)
		}
		rounds.Go(func() {
			wait, again := d.Round(ctx, key)
			d.queue.done(key, wait, again)
			<-free
		})
	}
}

// drain waits for rounds in flight.
func (d *Driver) drain(rounds *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		rounds.Wait()
		close(done)
	}()
	timer := time.NewTimer(d.options.DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("rounds in flight were not done within %s", d.options.DrainTimeout)
	}
}

// How a watch that failed is begun again: soon at first, then less and less often.
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
		d.log.Log(d.Loop.options.LogLevel(zapcore.WarnLevel, err), "objects are not watched, trying again", zap.Duration("in", retry), zap.Error(err))
		timer := time.NewTimer(retry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
