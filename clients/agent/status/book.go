package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Object is the state of an object as of its last reconcile.
type Object struct {
	agent.Key
	// UID of the object; empty: the platform has none.
	UID string `json:"uid,omitempty"`
	// Target is the last part of its name at the service. Empty: it had no reconcile yet.
	Target string `json:"target,omitempty"`
	// At is the end of its last reconcile, Outcome its outcome.
	At      time.Time     `json:"at"`
	Outcome agent.Outcome `json:"outcome"`
	// Shadow reports whether nothing is applied.
	Shadow bool `json:"shadow,omitempty"`
	// Decision is the last one. Nil before the first.
	Decision *Decided `json:"decision,omitempty"`
	// Hold is why it is not scaled. Nil: it is.
	Hold *Held `json:"hold,omitempty"`
	// Error is the failure of the last reconcile, such as a metric or a read. Waiting reports
	// whether it is to be expected and ends by itself: a task has no usage yet.
	Error   string `json:"error,omitempty"`
	Waiting bool   `json:"waiting,omitempty"`
	// Cause is the end of the error, without the controller's words before it. Empty: there are
	// none.
	Cause string `json:"cause,omitempty"`
	// Warning is a problem of the object that does not keep it from being scaled.
	Warning string `json:"warning,omitempty"`
	// Scaled is the last change of the count. Nil: unknown.
	Scaled *Scaled `json:"scaled,omitempty"`
	// Idle reports whether the count is 0 because an agent scaled it to that.
	Idle bool `json:"idle,omitempty"`
	// LastChange is when a controller last changed the count, as the platform or the service shows it. Nil: never, or unknown.
	LastChange *time.Time `json:"lastChange,omitempty"`
	// Next says what comes next, a change a line, where someone has asked for it. It is not stored.
	Next []string `json:"next,omitempty"`
}

// Decided is a decision.
type Decided struct {
	At      time.Time `json:"at"`
	Current int32     `json:"current"`
	Desired int32     `json:"desired"`
	// Reason says in a few words why the count should change; empty: it should not.
	Reason string `json:"reason,omitempty"`
	// Metrics are the values of the metrics that were computed, such as "cpu 48% (target 60%)".
	Metrics []string `json:"metrics,omitempty"`
	// Limits say what else has decided the count: a bound, a policy, a window.
	Limits []string `json:"limits,omitempty"`
	// Adjusted says what a stage changed, or what an override keeps. Empty: nothing.
	Adjusted string `json:"adjusted,omitempty"`
	// Fleet says what share of a fleet the count is. Empty: the object is decided alone.
	Fleet string `json:"fleet,omitempty"`
	// Plain is the count without stages and overrides, if it is another one.
	Plain *int32 `json:"plain,omitempty"`
	// Notice is the platform's, such as tasks that don't run.
	Notice string `json:"notice,omitempty"`
	// Inactive says why nothing is scaled although nothing failed, such as a count of 0 set by
	// others. Empty: it is scaled.
	Inactive string `json:"inactive,omitempty"`
}

// Held is why an object is not scaled.
type Held struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// Scaled is a change of a count.
type Scaled struct {
	At             time.Time `json:"at"`
	From           int32     `json:"from"`
	To             int32     `json:"to"`
	Reason         string    `json:"reason"`
	Recommendation string    `json:"recommendation,omitempty"`
}

// maxText bounds the texts that are kept of an object, bytes: some are users'.
const maxText = 4096

// Book has the status of each object, and stores it in a file. It is safe for concurrent use.
type Book struct {
	cluster string
	file    string // empty: it is kept in memory only
	began   time.Time
	log     *zap.Logger

	mu sync.Mutex
	// objects were reconciled by this agent; before are those of an earlier agent. Guarded by
	// mu.
	objects, before map[agent.Key]*Object
	// errs are errors since the object's last Tell. Guarded by mu.
	errs map[agent.Key]string
	// dirty reports whether the file is not up to date, watching why objects are not watched.
	// Guarded by mu.
	dirty    bool
	watching string
}

// kept is the file's form.
type kept struct {
	Version int       `json:"version"`
	Cluster string    `json:"cluster"`
	Objects []*Object `json:"objects"`
}

const (
	keptVersion  = 1
	keptName     = "agent.json"
	maxKeptBytes = 256 << 20
	// keepEvery is how often a file that is not up to date is written, and dropBefore how long
	// objects of an agent before this one are kept that have no reconcile.
	keepEvery  = 15 * time.Second
	dropBefore = time.Hour
)

// Open opens the book of a cluster in a folder; empty: nothing is stored. An unreadable file is an
// error; an unparsable one starts a new book. The log tells if the file can't be written.
func Open(folder, cluster string, log *zap.Logger) (*Book, error) {
	b := &Book{
		cluster: cluster, began: time.Now(), log: log,
		objects: map[agent.Key]*Object{}, before: map[agent.Key]*Object{}, errs: map[agent.Key]string{},
	}
	if folder == "" {
		return b, nil
	}
	info, err := os.Stat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no folder %s: create it, for the agent to write to", folder)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", folder)
	}
	b.file = filepath.Join(folder, keptName)
	text, err := files.Read(b.file, maxKeptBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	var k kept
	if json.Unmarshal(text, &k) != nil || k.Version != keptVersion || k.Cluster != cluster {
		return b, nil // of another version or cluster, or broken: worthless
	}
	for _, o := range k.Objects {
		if o != nil {
			b.before[o.Key] = o
		}
	}
	return b, nil
}

// failed records an error of an object, for its next Tell.
func (b *Book) failed(key agent.Key, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs[key] = typed.Shorten(err.Error(), maxText)
}

// unread records an object that could not be read, which has no Tell.
func (b *Book) unread(key agent.Key, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := &Object{Key: key}
	if last := b.lastOf(key); last != nil {
		*o = *last
	}
	o.At, o.Outcome, o.Hold, o.Error = time.Now().UTC(), agent.OutcomeReadError, nil, typed.Shorten(err.Error(), maxText)
	o.Waiting, o.Cause = false, ""
	b.put(o)
}

// lastOf is the last status of an object. The lock is held.
func (b *Book) lastOf(key agent.Key) *Object {
	if o := b.objects[key]; o != nil {
		return o
	}
	return b.before[key]
}

// put stores the status of an object. The lock is held.
func (b *Book) put(o *Object) {
	b.objects[o.Key], b.dirty = o, true
	delete(b.before, o.Key)
}

// note notes a reconcile.
func (b *Book) note(t *agent.Telling) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := t.Object.Key
	o := &Object{
		Key: key, UID: t.Object.UID, Target: t.Object.Target, At: time.Now().UTC(), Outcome: t.Outcome, Shadow: t.Object.Shadow,
		Warning: typed.Shorten(t.Object.Warning, maxText), Error: b.errs[key],
	}
	delete(b.errs, key)
	last := b.lastOf(key)
	if last != nil && last.UID == o.UID {
		o.Scaled, o.Decision, o.Idle, o.LastChange = last.Scaled, last.Decision, last.Idle, last.LastChange
	}
	if at := t.Object.LastChange; at != nil && !at.IsZero() {
		o.LastChange = at
	}
	if h := t.Hold; h != nil {
		o.Hold = &Held{h.Reason, typed.Shorten(h.Message, maxText), h.Since.UTC()}
		if last != nil && last.UID == o.UID && last.Hold != nil && last.Hold.Reason == h.Reason && last.Hold.Since.Before(o.Hold.Since) {
			o.Hold.Since = last.Hold.Since
		}
	}
	if d := t.Decision; d != nil {
		o.decided(d)
		o.Waiting = o.Error != "" && o.Decision.Notice == "" && usageFails.MatchString(o.Error) && (o.At.Sub(b.began) < usageAfter || young(d.Request, d.At))
	}
	b.put(o)
}

// usageAfter is how long a task may have no usage.
const usageAfter = time.Minute

// usageFails matches errors of usage, but not those that only another spec of the task mends.
var usageFails = regexp.MustCompile(`failed to get \S+ (container )?resource metric value: .*(API|pods|yet|reports?)\b|the fleet could not compute its count: FailedGet(Container)?ResourceMetric\b`)

// young reports whether a pod of the request started not long ago.
func young(r *setpointv1.RecommendRequest, now time.Time) bool {
	return slices.ContainsFunc(r.GetPods(), func(p *setpointv1.Pod) bool {
		return p.GetStartTime() != nil && now.Sub(p.GetStartTime().AsTime()) < usageAfter
	})
}

func (o *Object) decided(d *agent.Decision) {
	figures := agent.FiguresOf(d.Answer, d.Request)
	o.Decision = &Decided{
		At: d.At.UTC(), Current: d.Answer.GetCurrentReplicas(), Desired: d.Answer.GetDesiredReplicas(), Reason: typed.Shorten(d.Answer.GetReason(), maxText),
		Metrics: figures.Metrics, Limits: figures.Limits, Adjusted: typed.Shorten(figures.Adjusted, maxText), Fleet: figures.Fleet, Plain: plainOf(d.Answer),
		Notice: typed.Shorten(d.Observation.Notice, maxText),
	}
	switch {
	case d.ApplyError != nil:
		o.Error = typed.Shorten(d.ApplyError.Error(), maxText)
	case o.Error == "":
		problem := problemOf(d)
		o.Error, o.Cause = typed.Shorten(problem, maxText), typed.Shorten(causeOf(d, problem), maxText)
	}
	for _, c := range d.Answer.GetStatus().GetConditions() {
		// Of a count that moves it is from an earlier evaluation: to a bound it moves without reading metrics.
		if c.GetType() == "ScalingActive" && c.GetStatus() == "False" && o.Error == "" && o.Decision.Current == o.Decision.Desired {
			o.Decision.Inactive = typed.Shorten(c.GetReason()+": "+c.GetMessage(), maxText)
		}
		// One that agrees with the recommendation changes nothing, and is in force.
		if d := o.Decision; c.GetType() == "Overridden" && c.GetStatus() == "True" && !strings.Contains(d.Adjusted, c.GetMessage()) {
			d.Adjusted = typed.Shorten(strings.TrimPrefix(d.Adjusted+"; "+c.GetMessage(), "; "), maxText)
		}
	}
	o.Idle = o.Decision.Current == 0 && (o.Idle || scaledToZero(d))
	// The service remembers what an agent on another machine did. A shadow's record is not of the count, and an answer
	// takes its own count for applied.
	if at := d.Status().GetLastScaleTime(); at != nil && !d.Shadow && d.ApplyError == nil {
		o.LastChange = new(at.AsTime())
	}
	if d.Applied {
		o.Idle = o.Decision.Desired == 0
		o.Scaled = &Scaled{
			At: o.At, From: o.Decision.Current, To: o.Decision.Desired, Reason: o.Decision.Reason,
			Recommendation: d.Answer.GetRecommendationId(),
		}
	}
}

// scaledToZero reports whether the service remembers that an agent scaled to 0.
func scaledToZero(d *agent.Decision) bool {
	return !d.Shadow && slices.ContainsFunc(d.Answer.GetStatus().GetConditions(), func(c *setpointv1.HorizontalPodAutoscalerCondition) bool {
		return c.GetType() == "ScaledToZero" && c.GetStatus() == "True"
	})
}

// plainOf is the count without stages and overrides, if it is another one; else nil.
func plainOf(answer *setpointv1.RecommendResponse) *int32 {
	if answer.PlainDesiredReplicas == nil || answer.GetPlainDesiredReplicas() == answer.GetDesiredReplicas() {
		return nil
	}
	return new(answer.GetPlainDesiredReplicas())
}

// forget drops the state of an object.
func (b *Book) forget(key agent.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, key)
	delete(b.before, key)
	delete(b.errs, key)
	b.dirty = true
}

// heldBefore is the reason for which the agent before this one held an object.
func (b *Book) heldBefore(key agent.Key, uid string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.lastOf(key); o != nil && o.UID == uid && o.Hold != nil {
		return o.Hold.Reason
	}
	return ""
}

// isIdle reports whether the count of an object is 0 because this agent, or one before it, scaled it to that.
func (b *Book) isIdle(key agent.Key, uid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.lastOf(key)
	return o != nil && o.UID == uid && o.Idle
}

// watched notes that objects are watched, or why they are not.
func (b *Book) watched(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watching = typed.Shorten(problem, maxText)
}

// Objects returns the status of reconciled objects, by namespace, name and kind, and why no objects
// are watched.
func (b *Book) Objects() (objects []*Object, watching string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.objects {
		objects = append(objects, o) // immutable by now
	}
	slices.SortFunc(objects, func(a, b *Object) int { return a.Compare(b.Key) })
	return objects, b.watching
}

// Keep writes the file when it is out of date, until the context ends, and then once more.
func (b *Book) Keep(ctx context.Context) {
	if b.file == "" {
		return
	}
	began, told := time.Now(), ""
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticker.C:
		}
		failure := ""
		if err := b.write(time.Since(began) > dropBefore); err != nil {
			failure = err.Error()
		}
		if failure != "" && failure != told { // and not each time
			b.log.Warn("saving state failed", zap.String("folder", filepath.Dir(b.file)), zap.String("error", failure))
		}
		told = failure
	}
}

// write writes the file if it is not up to date.
func (b *Book) write(withoutBefore bool) error {
	b.mu.Lock()
	if !b.dirty {
		b.mu.Unlock()
		return nil
	}
	if withoutBefore {
		clear(b.before)
	}
	k := kept{Version: keptVersion, Cluster: b.cluster}
	for _, objects := range []map[agent.Key]*Object{b.objects, b.before} {
		for _, o := range objects {
			k.Objects = append(k.Objects, o)
		}
	}
	b.dirty = false
	b.mu.Unlock()
	slices.SortFunc(k.Objects, func(a, b *Object) int { return cmp.Or(a.Compare(b.Key), cmp.Compare(a.UID, b.UID)) })
	err := b.replace(&k)
	if err != nil {
		b.mu.Lock()
		b.dirty = true
		b.mu.Unlock()
	}
	return err
}

// replace replaces the file atomically, so that it is never half written.
func (b *Book) replace(k *kept) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	file, end, err := files.Replace(b.file, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return end(err)
}
