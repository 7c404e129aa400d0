// Two bundles: the extension (Node, CommonJS, as VS Code loads it) and the chat view's script (browser).
import esbuild from 'esbuild';

const production = process.argv.includes('--production');
const shared = { bundle: true, minify: production, sourcemap: !production, logLevel: 'warning' };
const builds = [
  { ...shared, entryPoints: ['src/extension.ts'], outfile: 'dist/extension.js', platform: 'node', target: 'node20', format: 'cjs', external: ['vscode'] },
  { ...shared, entryPoints: ['src/chat/webview/main.ts'], outfile: 'dist/chat.js', platform: 'browser', target: 'es2023', format: 'iife' },
];
if (process.argv.includes('--watch')) {
  for (const build of builds) await (await esbuild.context(build)).watch();
} else {
  await Promise.all(builds.map((build) => esbuild.build(build)));
}
