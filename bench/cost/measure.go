package cost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/process"
	"github.com/setpoint-dev/setpoint/bench/request"
)

// Targets that are called in turn, pods of each, and how often each is called before
// the measurement: then histories have their full length.
const (
	measuredTargets = 10_000
	measuredPods    = 10
	fillRounds      = 21
	// usualBatch is the default number of requests in a batch.
	usualBatch = 500
	// ofAStream is the maximum number of requests in flight on a stream.
	ofAStream = 16
	// batchConnections is the number of connections for batches: the service refuses
	// more while many responses on the same connection are unread.
	batchConnections = 4
)

// The service sheds load while the machine is busy with other work: a run in which it
// refuses more than this share of calls does not count, and is repeated after a pause
// for the service to recover, at most this often.
const (
	allowedFailures = .01
	recovery        = time.Second
	maxAttempts     = 10
)

// loads are the measured loads.
func loads() (all []Load) {
	callers := []int{1, 2, 4, 8, 16, 64}
	for _, kind := range []Kind{UnaryMemory, UnaryRedis, StreamRedis} {
		for _, n := range callers {
			all = append(all, Load{kind, n, 1})
		}
	}
	for _, requests := range []int{1, 16, 64} {
		all = append(all, Load{BatchRedis, 1, requests})
	}
	for _, n := range []int{1, 2, 4, 8} {
		all = append(all, Load{BatchRedis, n, usualBatch})
	}
	return all
}

// bench has the measured programs.
type bench struct {
	redis           *process.Redis
	services        map[bool]*process.Service // by whether histories are in Redis
	clients         map[bool]*client.Client
	sets            map[bool]*request.Set
	wide            *client.Client // to the service with Redis, on batchConnections
	program, folder string
	ending          []func()
}

func (b *bench) end() {
	for _, f := range slices.Backward(b.ending) {
		f()
	}
}

func startBench(ctx context.Context, program, folder string) (b *bench, err error) {
	b = &bench{program: program, folder: folder, services: map[bool]*process.Service{}, clients: map[bool]*client.Client{}, sets: map[bool]*request.Set{}}
	if b.redis, err = process.StartRedis(ctx, folder); err != nil {
		return b, err
	}
	b.ending = append(b.ending, func() { _ = b.redis.Stop() })
	for _, onRedis := range []bool{false, true} {
		if err := b.serve(ctx, onRedis); err != nil {
			return b, err
		}
	}
	return b, nil
}

// serve starts a service and calls it for all targets until their histories are full.
func (b *bench) serve(ctx context.Context, onRedis bool) error {
	flags := []string{"--allow-evaluation-time"}
	if onRedis {
		flags = append(flags, "--redis="+b.redis.URL())
	}
	service, err := process.StartService(b.program, b.folder, flags...)
	if err != nil {
		return err
	}
	b.ending = append(b.ending, func() { _ = service.Stop() })
	c, err := client.Dial(service.GRPC, 1)
	if err != nil {
		return err
	}
	b.ending = append(b.ending, c.Close)
	set, err := request.NewSet(0, measuredTargets, measuredPods, false)
	if err != nil {
		return err
	}
	if onRedis {
		if b.wide, err = client.Dial(service.GRPC, batchConnections); err != nil {
			return err
		}
		b.ending = append(b.ending, b.wide.Close)
	}
	b.services[onRedis], b.clients[onRedis], b.sets[onRedis] = service, c, set
	const fillers = 2
	call := c.Batch(set, fillers, usualBatch)
	r := load.Callers(fillers, func(caller int, r *load.Result) {
		for n := 0; n < fillRounds*measuredTargets/usualBatch/fillers && ctx.Err() == nil; n++ {
			r.Record(0, call(ctx, caller))
		}
	})
	return errors.Join(ctx.Err(), r.Err)
}

// drive puts a load on a client's service.
func drive(ctx context.Context, c *client.Client, set *request.Set, l Load, d time.Duration) *load.Result {
	switch l.Kind {
	case StreamRedis:
		streams := max(1, l.InFlight/ofAStream)
		each := l.InFlight / streams
		return load.Streams(ctx, streams, each, d, c.Converse(set, streams, each))
	case BatchRedis:
		return load.Closed(ctx, l.InFlight, d, c.Batch(set, l.InFlight, l.Requests))
	default:
		return load.Closed(ctx, l.InFlight, d, c.Unary(set, l.InFlight))
	}
}

// sample has the totals of all runs of a load.
type sample struct {
	Load
	result                     *load.Result
	client, service, redis     time.Duration
	busy, stolen, elapsed      time.Duration
	discarded                  int
	commandsSent, tripsOfRedis float64
}

var errRefused = errors.New("the service refused calls")

// insist adds a run, and repeats it until it counts.
func (s *sample) insist(ctx context.Context, b *bench, d time.Duration) error {
	for attempt := 1; ; attempt++ {
		err := s.run(ctx, b, d)
		if !errors.Is(err, errRefused) || attempt == maxAttempts || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		s.discarded++
		time.Sleep(recovery)
	}
}

// run adds a run.
func (s *sample) run(ctx context.Context, b *bench, d time.Duration) error {
	onRedis := s.Kind != UnaryMemory
	service := b.services[onRedis]
	commands, trips, err := sent(service, onRedis)
	if err != nil {
		return err
	}
	busy, stolen := process.Busy()
	own, served, stored := process.CPU(os.Getpid()), process.CPU(service.PID()), process.CPU(b.redis.PID())
	c := b.clients[onRedis]
	if s.Kind == BatchRedis {
		c = b.wide
	}
	r := drive(ctx, c, b.sets[onRedis], s.Load, d)
	if float64(r.Failed) > allowedFailures*float64(r.Done) {
		return fmt.Errorf("%s: %w, %d of %d calls failed, the first with: %w", s.Load, errRefused, r.Failed, r.Failed+r.Done, r.Err)
	}
	s.client += process.CPU(os.Getpid()) - own
	s.service += process.CPU(service.PID()) - served
	if onRedis {
		s.redis += process.CPU(b.redis.PID()) - stored
	}
	busyNow, stolenNow := process.Busy()
	s.busy += busyNow - busy
	s.stolen += stolenNow - stolen
	s.elapsed += r.Elapsed
	commandsNow, tripsNow, err := sent(service, onRedis)
	s.commandsSent += commandsNow - commands
	s.tripsOfRedis += tripsNow - trips
	s.result.Add(r)
	return err
}

// sent returns how many commands and round trips a service has sent to Redis.
func sent(service *process.Service, onRedis bool) (commands, trips float64, err error) {
	if !onRedis {
		return 0, 0, nil
	}
	commands, err = service.Metric("setpoint_redis_commands_total")
	if err != nil {
		return 0, 0, err
	}
	trips, err = service.Metric("setpoint_redis_round_trips_total")
	return commands, trips, err
}

func (s *sample) point(cores int) Point {
	each := func(d time.Duration) float64 {
		return float64(d.Nanoseconds()) / 1e3 / float64(s.result.Done*s.Requests)
	}
	p := Point{
		Load: s.Load, Rate: s.result.Rate() * float64(s.Requests), Client: each(s.client), Service: each(s.service), Redis: each(s.redis), Discarded: s.discarded,
		P50:           float64(s.result.Quantile(.5).Nanoseconds()) / 1e6,
		OthersPercent: max(0, 100*(s.busy+s.stolen-s.client-s.service-s.redis).Seconds()/s.elapsed.Seconds()/float64(cores)),
	}
	if s.tripsOfRedis > 0 {
		p.SwapsATrip = s.commandsSent / s.tripsOfRedis
	}
	return p
}

// points measures all loads in turns, so that other work on the machine affects all of
// them.
func (b *bench) points(ctx context.Context, runs int, d time.Duration, cores int) ([]Point, error) {
	var samples []*sample
	for _, l := range loads() {
		samples = append(samples, &sample{Load: l, result: load.NewResult()})
	}
	for range runs {
		for _, s := range samples {
			if err := s.insist(ctx, b, d); err != nil {
				return nil, err
			}
		}
	}
	var points []Point
	for _, s := range samples {
		points = append(points, s.point(cores))
	}
	return points, nil
}
