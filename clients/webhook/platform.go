package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/clients/samples"
)

// Kind is the kind of the objects.
const Kind = "Target"

// Limits bound the data that a server may make the agent read. The zero value of a field is its
// default.
type Limits struct {
	// Targets in all pages. Default: 10000.
	Targets int
	// Pods of one observation. Default: 5000.
	Pods int
	// Samples of one observation, errors of metrics included. Default: 20000.
	Samples int
}

// DefaultLimits returns the default limits of a platform.
func DefaultLimits() Limits { return Limits{Targets: 10_000, Pods: 5000, Samples: 20_000} }

// Options of a Platform. The zero value of a field is its default.
type Options struct {
	// ListEvery is the time between two lists. Default: 10 s.
	ListEvery time.Duration
	// GoneAfter is how long lists must lack a target before it is gone and its history is
	// deleted: a starting server may list nothing for a while. Default: a minute.
	GoneAfter time.Duration
	// Limits bound lists and observations.
	Limits Limits
	// Sources answers the queries of targets. Nil disables them.
	Sources samples.Reader
	// Log takes the lines. Nil: no log.
	Log *zap.Logger
}

// pageSize is the requested maximum of targets per page.
const pageSize = 500

// Platform is the targets of a server. It implements agent.Watched.
type Platform struct {
	client  *Client
	options Options
	log     *zap.Logger
	// again triggers a list soon, at most once a second.
	again chan struct{}

	mu sync.Mutex
	// known are the targets of the last list. Guarded by mu.
	known map[agent.Key]*agent.Object
	// missing has, for targets held because lists lack them, since when. Guarded by mu.
	missing map[agent.Key]time.Time
	// doubted are the targets that a call reported as gone, by their UIDs: that triggered a
	// list once, and does not again before they are observed or replaced. Guarded by mu.
	doubted map[agent.Key]string
	// listed is the time of the last list; zero: never. Guarded by mu.
	listed time.Time
	// problem is why the last list failed, empty: it succeeded. Guarded by mu.
	problem string
	// unnamed are the entries of the last list without a valid name. Guarded by mu.
	unnamed unnamed

	// pages are the pages of the last list, by their tokens. Owned by Watch.
	pages map[string]*page
}

// page is a known page, valid as long as its ETag is.
type page struct {
	etag    string
	next    string
	objects []*agent.Object
	unnamed unnamed
	bytes   int
}

// unnamed are entries without a readable name.
type unnamed struct {
	entries int
	// problems are those of the first ones.
	problems []string
}

// mostProblems bounds the shown problems.
const mostProblems = 20

func (u *unnamed) add(entries int, problems ...string) {
	u.entries += entries
	u.problems = append(u.problems, problems[:min(len(problems), mostProblems-len(u.problems))]...)
}

var _ agent.Watched = (*Platform)(nil)

// New returns the platform of a server. It opens no connection.
func New(client *Client, options Options) *Platform {
	options.ListEvery = cmp.Or(options.ListEvery, 10*time.Second)
	options.GoneAfter = cmp.Or(options.GoneAfter, time.Minute)
	limits := DefaultLimits()
	options.Limits.Targets = cmp.Or(options.Limits.Targets, limits.Targets)
	options.Limits.Pods = cmp.Or(options.Limits.Pods, limits.Pods)
	options.Limits.Samples = cmp.Or(options.Limits.Samples, limits.Samples)
	options.Log = cmp.Or(options.Log, zap.NewNop())
	if options.Sources == nil {
		options.Sources = &samples.Set{}
	}
	return &Platform{
		client: client, options: options, log: options.Log, again: make(chan struct{}, 1),
		known: map[agent.Key]*agent.Object{}, missing: map[agent.Key]time.Time{}, pages: map[string]*page{},
	}
}

// stale is the age at which the last list is no longer used for scaling.
func (p *Platform) stale() time.Duration { return max(time.Minute, 10*p.options.ListEvery) }

// Object implements agent.Platform. The settings come from the last list.
func (p *Platform) Object(_ context.Context, key agent.Key, _ *agent.Object) (*agent.Object, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.known[key]
	switch age := time.Since(p.listed); {
	case o == nil && !p.listed.IsZero():
		return nil, agent.ErrGone
	case o == nil:
		return nil, errors.New("the targets were never listed")
	case age > p.stale():
		p.listSoon()
		return nil, fmt.Errorf("the targets were last listed %s ago", age.Round(time.Second))
	}
	return o, nil
}

// Observe implements agent.Platform.
func (p *Platform) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	request, version, err := p.ask(ctx, o)
	if err != nil {
		return nil, err
	}
	wants := o.Native.(*wanted)
	request.Spec = o.Spec
	withoutUnusable(request, time.Now())
	if err := samples.AddTo(ctx, p.options.Sources, wants.metrics, request); err != nil {
		return nil, fmt.Errorf("observe: request: %w", err)
	}
	return &agent.Observation{
		Request:  request,
		InCharge: &shadow.Side{Replicas: request.GetScale().GetSpecReplicas()}, Against: "the count of the target",
		Native: version,
	}, nil
}

// ask observes a target. For one that does not exist the error is a *HoldError: only the list
// decides whether it is gone.
func (p *Platform) ask(ctx context.Context, o *agent.Object) (request *setpointv1.RecommendRequest, version string, err error) {
	body, err := json.Marshal(Question{o.Key.Namespace, o.Key.Name, o.UID})
	if err != nil {
		return nil, "", err
	}
	said, err := p.client.do(ctx, call{method: http.MethodPost, path: "/observe", body: body, most: maxObserveBytes})
	if err != nil {
		return nil, "", fmt.Errorf("observe: %w", err)
	}
	if err := refusal(said); err != nil {
		if said.notFound() {
			p.listMissing(o)
			err = &agent.HoldError{Hold: agent.Hold{
				Outcome: agent.OutcomeWaiting, Reason: agent.ReasonNotFound, Message: "the server lists it, and when it is observed " + err.Error(),
			}}
		}
		return nil, "", fmt.Errorf("observe: %w", err)
	}
	p.mu.Lock()
	delete(p.doubted, o.Key)
	p.mu.Unlock()
	var seen Observation
	if err := strict(said.body, &seen); err != nil {
		return nil, "", fmt.Errorf("observe: the answer: %w", err)
	}
	if request, err = seen.request(p.options.Limits); err != nil {
		return nil, "", fmt.Errorf("observe: %w", err)
	}
	return request, seen.Version, nil
}

// Ready returns why the targets are not known; nil: they are.
func (p *Platform) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch age := time.Since(p.listed); {
	case p.problem != "" && (p.listed.IsZero() || age > p.stale()):
		return errors.New("the targets are not listed: " + p.problem)
	case p.listed.IsZero():
		return errors.New("the targets were not listed yet")
	}
	return nil
}

// refusal returns the error of an answer other than 200.
func refusal(said *answer) error {
	if said.status == http.StatusOK {
		return nil
	}
	return said.failure()
}

// failure returns the error that an answer says: by its status, or by its body alone.
func (a *answer) failure() error {
	var failure Failure
	_ = strict(a.body, &failure) // whatever stands beside it
	switch {
	case failure.Error != "":
		return fmt.Errorf("it answered %d: %s", a.status, shorten(failure.Error))
	case a.status == http.StatusOK:
		return nil
	}
	return fmt.Errorf("it answered %d %s", a.status, http.StatusText(a.status))
}

// notFound reports whether the answer means that there is no such target.
func (a *answer) notFound() bool {
	return a.status == http.StatusNotFound || a.status == http.StatusGone
}

// listMissing triggers a list, once per target, because the target was not found: a server that
// lists a target but does not find it must not get list requests again and again.
func (p *Platform) listMissing(o *agent.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if uid, doubted := p.doubted[o.Key]; doubted && uid == o.UID {
		return
	}
	if p.doubted == nil {
		p.doubted = map[agent.Key]string{}
	}
	p.doubted[o.Key] = o.UID
	p.listSoon()
}

func (p *Platform) listSoon() {
	select {
	case p.again <- struct{}{}:
	default:
	}
}

// Apply implements agent.Platform. It repeats a call with a lost answer once: the
// recommendation's id identifies it. If the server does not remember that, or the second answer
// is lost as well, the current count decides, as after an error of the server, which may have come
// after the change.
func (p *Platform) Apply(ctx context.Context, o *agent.Object, seen *agent.Observation, change agent.Change) error {
	body, err := json.Marshal(Application{
		Namespace: o.Key.Namespace, Name: o.Key.Name, UID: o.UID,
		CurrentReplicas: seen.Request.GetScale().GetSpecReplicas(), DesiredReplicas: change.To, // From is what an old profile started from
		RecommendationID: change.RecommendationID, Reason: change.Why, Version: seen.Native.(string),
	})
	if err != nil {
		return err
	}
	apply := call{method: http.MethodPost, path: "/apply", body: body, most: maxShortBytes}
	said, err := p.client.do(ctx, apply)
	unsure := errUnsure{}
	again := errors.As(err, &unsure)
	if again {
		said, err = p.client.do(ctx, apply)
	}
	var failure error
	switch {
	case err != nil:
		failure = fmt.Errorf("apply: %w", err)
	case said.status == http.StatusConflict:
		failure = agent.ErrMoved
	default:
		if failure = said.failure(); failure != nil {
			failure = fmt.Errorf("apply: %w", failure)
		}
		if said.notFound() {
			p.listMissing(o)
		}
	}
	if err == nil && said.status >= http.StatusInternalServerError || again && (errors.As(err, &unsure) || err == nil && said.status == http.StatusConflict) {
		return agent.Written(change.To, failure, func() (int32, error) {
			now, _, err := p.ask(ctx, o)
			return now.GetScale().GetSpecReplicas(), err
		})
	}
	return failure
}

// Watch implements agent.Watched: it lists the targets regularly, and retries failed lists.
func (p *Platform) Watch(ctx context.Context, changed func(agent.Key)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	listed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.again:
			timer.Reset(max(time.Until(listed.Add(time.Second)), 0))
			continue
		case <-timer.C:
		}
		listed = time.Now()
		err := p.list(ctx, changed)
		if ctx.Err() != nil {
			return nil
		}
		p.noteProblem(err)
		timer.Reset(p.options.ListEvery)
	}
}

// noteProblem records why the targets can't be listed, and logs it once.
func (p *Platform) noteProblem(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.problem
	if p.problem = ""; err != nil {
		p.problem = err.Error()
	}
	switch {
	case p.problem == before:
	case err != nil:
		p.log.Error("listing targets failed; using the previous list",
			zap.Duration("every", p.options.ListEvery), zap.Duration("while", p.stale()), zap.Error(err))
	default:
		p.log.Info("targets listed again")
	}
}

// Bounds of a list.
const (
	maxPages      = 1000
	maxListedSize = 64 << 20
	listTimeout   = time.Minute
)

// list reads all pages, and notifies about changed targets.
func (p *Platform) list(ctx context.Context, changed func(agent.Key)) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	pages := map[string]*page{}
	there := map[agent.Key]*agent.Object{}
	var nameless unnamed
	size := 0
	for token := ""; ; {
		one, err := p.page(ctx, token)
		if err != nil {
			return err
		}
		pages[token] = one
		for _, o := range one.objects {
			if there[o.Key] != nil {
				o = twice(o)
			}
			there[o.Key] = o
		}
		nameless.add(one.unnamed.entries, one.unnamed.problems...)
		switch size += one.bytes; {
		case size > maxListedSize:
			return fmt.Errorf("the list is larger than %d bytes", maxListedSize)
		case len(there)+nameless.entries > p.options.Limits.Targets:
			return fmt.Errorf("the list has more than the %d targets that this agent takes", p.options.Limits.Targets)
		case len(pages) > maxPages:
			return fmt.Errorf("the list has more than %d pages", maxPages)
		}
		if token = one.next; token == "" {
			break
		}
		if pages[token] != nil {
			return errors.New("nextPageToken: repeats an earlier page")
		}
	}
	p.pages = pages
	p.note(there, nameless, changed)
	return nil
}

// twice is a target that the list contains twice. It is unclear which entry is valid.
func twice(o *agent.Object) *agent.Object {
	held := *o
	held.Hold, held.Revision = invalid(errors.New("the list contains it twice")), agent.Version("twice")
	return &held
}

// note takes over a list, and notifies about changes.
func (p *Platform) note(there map[agent.Key]*agent.Object, nameless unnamed, changed func(agent.Key)) {
	var tell []agent.Key
	p.mu.Lock()
	for key, o := range there {
		was := p.known[key]
		if was != nil && o.UID != was.UID && o.Hold != nil && o.Hold.Outcome != agent.OutcomeWaiting {
			// An invalid target's UID is not believed either: another one deletes the history.
			same := *o
			same.UID = was.UID
			o = &same
			there[key] = o
		}
		delete(p.missing, key)
		if was == nil || was.UID != o.UID || !was.Revision.Same(o.Revision) {
			tell = append(tell, key)
		}
	}
	// A time in which no list could be read says of none that it is gone.
	unread := max(0, time.Since(p.listed)-2*p.options.ListEvery)
	for key, was := range p.known {
		since, missing := p.missing[key]
		since = since.Add(unread)
		switch {
		case there[key] != nil:
		case !missing:
			// Reading a list page by page may miss an existing target.
			held := *was
			held.Hold = &agent.Hold{Outcome: agent.OutcomeWaiting, Reason: agent.ReasonNotListed, Message: "the last list does not have it", Silent: true}
			held.Revision = agent.Version("not listed")
			there[key], p.missing[key] = &held, time.Now()
			p.listSoon()
		case time.Since(since) < p.options.GoneAfter:
			there[key], p.missing[key] = was, since
		default:
			delete(p.missing, key)
			tell = append(tell, key)
		}
	}
	for key, uid := range p.doubted {
		if o := there[key]; o == nil || o.UID != uid {
			delete(p.doubted, key)
		}
	}
	p.known, p.listed = there, time.Now()
	if nameless.entries > 0 && p.unnamed.entries == 0 {
		p.log.Error("targets of the list can't be read", zap.Int("targets", nameless.entries), zap.Strings("problems", nameless.problems))
	}
	p.unnamed = nameless
	p.mu.Unlock()
	for _, key := range tell {
		changed(key)
	}
}

// List lists the targets once, as Watch does, and returns them in the order of their keys.
// Problem then names entries that can't be read.
func (p *Platform) List(ctx context.Context) ([]*agent.Object, error) {
	if err := p.list(ctx, func(agent.Key) {}); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Values(p.known), func(a, b *agent.Object) int { return a.Key.Compare(b.Key) }), nil
}

// RequestOf returns what the agent asks the service about a target, but for its names and the readings; nil: its entry is
// invalid.
func RequestOf(o *agent.Object) *setpointv1.RecommendRequest {
	if o.Hold != nil && o.Hold.Outcome != agent.OutcomeWaiting {
		return nil
	}
	return &setpointv1.RecommendRequest{Spec: o.Spec, Options: o.Options, Stages: o.Stages, Fleet: o.Fleet}
}

// Problem says why the last list failed, or else which of its entries have no valid name; empty:
// neither. Targets with a name are held, and report their problems themselves.
func (p *Platform) Problem() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.problem != "":
		return "the targets are not listed: " + p.problem
	case p.unnamed.entries > 0:
		return fmt.Sprintf("%d entries of the list can't be read: %s", p.unnamed.entries, strings.Join(p.unnamed.problems, "; "))
	}
	return ""
}

// page reads a page, or finds it unchanged.
func (p *Platform) page(ctx context.Context, token string) (*page, error) {
	query := url.Values{"pageSize": {strconv.Itoa(pageSize)}}
	if token != "" {
		query.Set("pageToken", token)
	}
	what := call{method: http.MethodGet, path: "/targets", query: query, most: maxListBytes}
	known := p.pages[token]
	if known != nil {
		what.etag = known.etag
	}
	said, err := p.client.do(ctx, what)
	if err != nil {
		return nil, err
	}
	if said.status == http.StatusNotModified && what.etag != "" && said.etag == what.etag {
		// The answer's own ETag is signed. The request's ETag may have been replaced in transit
		// by that of a list that the agent never read.
		return known, nil
	}
	if err := refusal(said); err != nil {
		return nil, err
	}
	var body Page
	switch err := strict(said.body, &body); {
	case err != nil:
		return nil, fmt.Errorf("the answer: %w", err)
	case body.Targets == nil:
		return nil, errors.New("targets: is required; [] says that there are none")
	case len(body.NextPageToken) > maxToken:
		return nil, fmt.Errorf("nextPageToken: is longer than %d bytes", maxToken)
	}
	read := &page{etag: said.etag, next: body.NextPageToken, bytes: len(said.body)}
	for i, raw := range body.Targets {
		o, err := p.readTarget(raw)
		if err != nil {
			read.unnamed.add(1, fmt.Sprintf("targets[%d]: %v", i, err))
			continue
		}
		read.objects = append(read.objects, o)
	}
	return read, nil
}

// readTarget parses a target. The error says why it has no key; any other problem holds the
// object.
func (p *Platform) readTarget(raw []byte) (*agent.Object, error) {
	var t Target
	tree, wrong := t.tree(raw)
	key, err := t.key()
	if err != nil {
		return nil, errors.Join(wrong, err)
	}
	if wrong == nil && len(raw) > maxTarget {
		wrong = fmt.Errorf("the target is larger than %d bytes", maxTarget)
	}
	if wrong != nil {
		return &agent.Object{Key: key, UID: uidOf(t), Hold: invalid(wrong), Revision: agent.Version(wrong.Error()), Native: &wanted{}}, nil
	}
	return t.object(key, raw, tree, p.options.Sources), nil
}

// uidOf is the UID of a partly unreadable target.
func uidOf(t Target) string {
	if len(t.UID) > maxUID {
		return ""
	}
	return t.UID
}
