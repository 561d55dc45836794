//go:build linux

package kubetest

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// RunningFor is how long a pod has been running, ready, by default, when it is made
// to run: longer than autoscalers take a pod's CPU usage for that of its start.
const RunningFor = 10 * time.Minute

// Fate is the status that a pod gets.
type Fate struct {
	// Phase, of which only Running is ready; "": the pod stays pending.
	Phase corev1.PodPhase
	// NotReady pods run, but are not ready.
	NotReady bool
	// RunningFor is how long the pod says it has been running and ready, or unready;
	// 0: since now.
	RunningFor time.Duration
}

// Running is the fate of pods by default.
var Running = Fate{Phase: corev1.PodRunning, RunningFor: RunningFor}

// Kubelet runs pods by writing their status, and removes deleted ones. There are no nodes and
// no containers.
type Kubelet struct {
	client kubernetes.Interface
	pods   cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[string]
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	fates map[string]func(*corev1.Pod) Fate // by namespace
	left  map[string]bool                   // namespaces whose pods others run
}

// kubeletWorkers is how many pods it sees to at a time.
const kubeletWorkers = 8

func startKubelet(client kubernetes.Interface) (*Kubelet, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	k := &Kubelet{
		client: client, fates: make(map[string]func(*corev1.Pod) Fate), left: make(map[string]bool), pods: factory.Core().V1().Pods().Informer(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, time.Second)),
	}
	if err := k.pods.SetTransform(leaner); err != nil {
		return nil, err
	}
	_, err := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    k.enqueue,
		UpdateFunc: func(_, pod any) { k.enqueue(pod) },
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.done.Go(func() { k.pods.RunWithContext(ctx) })
	for range kubeletWorkers {
		k.done.Go(func() {
			for k.work(ctx) {
			}
		})
	}
	if !cache.WaitForCacheSync(ctx.Done(), k.pods.HasSynced) {
		return nil, errors.New("the kubelet lists no pods")
	}
	return k, nil
}

// leaner drops unused fields.
func leaner(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

func (k *Kubelet) stop() {
	k.cancel()
	k.queue.ShutDown()
	k.done.Wait()
}

// Decide sets the fates of a namespace's pods, including existing ones. The function must be
// quick and may be called at any time; the default is Running.
func (k *Kubelet) Decide(namespace string, fate func(*corev1.Pod) Fate) {
	k.mu.Lock()
	k.fates[namespace] = fate
	k.mu.Unlock()
	for _, pod := range k.Pods(namespace) {
		k.enqueue(pod)
	}
}

// Leave keeps its hands off a namespace's pods from now on: something else runs them.
func (k *Kubelet) Leave(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left[namespace] = true
}

func (k *Kubelet) enqueue(object any) {
	if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
		k.queue.Add(key)
	}
}

func (k *Kubelet) work(ctx context.Context) bool {
	key, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(key)
	object, exists, err := k.pods.GetStore().GetByKey(key)
	if err == nil && exists {
		err = k.see(ctx, object.(*corev1.Pod))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		k.queue.AddRateLimited(key)
		return true
	}
	k.queue.Forget(key)
	return true
}

// see brings a pod to its fate.
func (k *Kubelet) see(ctx context.Context, pod *corev1.Pod) error {
	k.mu.Lock()
	decide, left := k.fates[pod.Namespace], k.left[pod.Namespace]
	k.mu.Unlock()
	if left {
		return nil
	}
	pods := k.client.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		now := int64(0)
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
	fate := Running
	if decide != nil {
		fate = decide(pod)
	}
	if fate.met(pod) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": fate.status(time.Now())})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// met reports whether the pod has its fate, except for times.
func (f Fate) met(pod *corev1.Pod) bool {
	if f.Phase == "" || f.Phase == corev1.PodPending {
		return true // a final phase
	}
	return pod.Status.Phase == f.Phase && ready(pod) == (f.Phase == corev1.PodRunning && !f.NotReady)
}

func (f Fate) status(now time.Time) corev1.PodStatus {
	since := metav1.NewTime(now.Add(-f.RunningFor))
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}
	if f.Phase != corev1.PodRunning || f.NotReady {
		condition.Status = corev1.ConditionFalse
	}
	return corev1.PodStatus{Phase: f.Phase, StartTime: &since, Conditions: []corev1.PodCondition{condition}}
}

func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Pods returns the namespace's pods as the kubelet knows them. They are only to be
// read.
func (k *Kubelet) Pods(namespace string) []*corev1.Pod {
	objects, err := k.pods.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil
	}
	pods := make([]*corev1.Pod, len(objects))
	for i, object := range objects {
		pods[i] = object.(*corev1.Pod)
	}
	return pods
}
