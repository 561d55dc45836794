// Asks a running server how many replicas a workload should have.
//
//   npm ci && node recommend.js [host:port]
'use strict';

const { randomUUID } = require('node:crypto');
const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const address = process.argv[2] ?? '127.0.0.1:9090';
const target = 'clusters/demo/namespaces/shop/targets/node';

const proto = path.join(__dirname, '..', '..', 'proto');
const { setpoint } = grpc.loadPackageDefinition(protoLoader.loadSync('setpoint/v1/recommendation_service.proto', {
  includeDirs: [path.join(__dirname, 'proto'), proto, path.join(proto, 'third_party')],
  longs: Number, // of what is sent nothing is larger than 2^53
  defaults: true, // fields that are not set read as they do elsewhere: 0, "", []
  oneofs: true,
}));

// A service that is away for a moment is asked again. The request id makes that
// harmless: what was recorded by an attempt whose answer was lost is answered again.
const retries = {
  methodConfig: [{
    name: [{ service: 'setpoint.v1.RecommendationService' }],
    retryPolicy: {
      maxAttempts: 4,
      initialBackoff: '0.1s',
      maxBackoff: '2s',
      backoffMultiplier: 2,
      retryableStatusCodes: ['UNAVAILABLE', 'ABORTED'],
    },
  }],
};

const client = new setpoint.v1.RecommendationService(address, grpc.credentials.createInsecure(), {
  'grpc.service_config': JSON.stringify(retries),
  'grpc.max_receive_message_length': 256 << 20,
});

// call makes a unary call and returns a promise of its answer.
function call(method, request) {
  return new Promise((resolve, reject) => {
    const options = { deadline: Date.now() + 10_000 };
    client[method](request, options, (err, answer) => (err ? reject(err) : resolve(answer)));
  });
}

// at is a google.protobuf.Timestamp.
const at = (time) => ({ seconds: Date.parse(time) / 1000 });

const pods = ['web-a', 'web-b', 'web-c'];

const request = {
  target,
  requestId: randomUUID(),
  spec: {
    minReplicas: 2,
    maxReplicas: 20,
    metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 60 } } }],
    behavior: { scaleDown: { stabilizationWindowSeconds: 120 } },
  },
  scale: { specReplicas: 3, statusReplicas: 3 },
  pods: pods.map((name) => ({
    name,
    phase: 'Running',
    startTime: at('2026-01-01T00:00:00Z'),
    ready: { status: 'True', lastTransitionTime: at('2026-01-01T00:00:20Z') },
    containers: [{ name: 'app', requests: { cpu: '500m' } }],
  })),
  podMetrics: pods.map((pod) => ({
    pod,
    timestamp: at('2026-01-01T01:00:00Z'),
    windowSeconds: 30,
    containers: [{ name: 'app', usage: { cpu: '450m' } }],
  })),
  explain: true,
};

async function main() {
  const answer = await call('recommend', request);
  console.log(`${answer.action}: ${answer.currentReplicas} → ${answer.desiredReplicas} replicas`);
  console.log(`because: ${answer.reason}`);
  for (const metric of answer.explanation.metrics) {
    console.log(`${metric.name}: ratio ${metric.usageRatio}, asks for ${metric.proposal}`);
  }
  if (answer.action === 'NONE') {
    return;
  }

  // Here the workload is scaled. Then:
  const report = await call('reportScale', { target, recommendationId: answer.recommendationId, outcome: 'APPLIED' });
  const able = report.status.conditions.find((condition) => condition.type === 'AbleToScale');
  console.log(`reported: ${able.reason}`);
  // A program that goes on waits for its period now. With setInterval the next question
  // might come less than a period after this change, and would be held back by it.
}

main()
  .catch((err) => {
    console.error(`${err.message}\n(is the server running: make run?)`);
    process.exitCode = 1; // hold the count
  })
  .finally(() => client.close());
