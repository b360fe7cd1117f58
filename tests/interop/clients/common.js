exports.endpoints = (addresses) =>
  addresses.map((address) => {
    const [host, port] = address.split(":");
    return { host, port: Number(port) };
  });

// A failure ends the process with its text on stderr; open connections must not keep the process alive.
exports.answer = async (decide) => {
  let text = "";
  for await (const piece of process.stdin) text += piece;
  const { access, calls } = JSON.parse(text);
  try {
    const replies = await decide(access, calls);
    process.stdout.write(JSON.stringify(replies), () => process.exit(0));
  } catch (failure) {
    process.stderr.write(`${failure.stack}\n`, () => process.exit(1));
  }
};
