const { createCluster, createSentinel } = require("redis");
const { answer, endpoints } = require("./common");

function connect(access) {
  const login = { username: access.username, password: access.password };
  if (access.kind === "cluster") {
    const rootNodes = access.nodes.map((address) => ({ url: `redis://${address}` }));
    return createCluster({ rootNodes, defaults: login });
  }
  return createSentinel({
    name: access.master_name,
    sentinelRootNodes: endpoints(access.sentinels),
    nodeClientOptions: login,
    sentinelClientOptions: login,
  });
}

answer(async (access, calls) => {
  const client = connect(access);
  client.on("error", (failure) => process.stderr.write(`${failure}\n`));
  await client.connect();
  const replies = [];
  for (const { sha1, key, args } of calls) {
    replies.push(await client.evalSha(sha1, { keys: [key], arguments: args }));
  }
  return replies;
});
