// Reads how to connect and what to ask from stdin, writes the replies to stdout.
const Redis = require("ioredis");
const { answer, endpoints } = require("./common");

function connect(access) {
  const login = { username: access.username, password: access.password };
  if (access.kind === "cluster") return new Redis.Cluster(endpoints(access.nodes), { redisOptions: login });
  const sentinel = { sentinelUsername: access.username, sentinelPassword: access.password };
  return new Redis({ sentinels: endpoints(access.sentinels), name: access.master_name, ...login, ...sentinel });
}

answer(async (access, calls) => {
  const client = connect(access);
  const replies = [];
  for (const { sha1, key, args } of calls) replies.push(await client.evalsha(sha1, 1, key, ...args));
  await client.quit();
  return replies;
});
