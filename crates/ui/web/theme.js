// @ts-check
/** Colours and density: the system's unless chosen, and remembered by the browser. */
import { effect, signal } from './core.js';

/** @typedef {'system' | 'light' | 'dark' | 'contrast'} Theme */
/** @type {Theme[]} */
export const THEMES = ['system', 'light', 'dark', 'contrast'];

const stored = /** @type {Theme} */ (localStorage.getItem('theme'));
export const theme = signal(THEMES.includes(stored) ? stored : 'system');
export const density = signal(localStorage.getItem('density') ?? 'normal');

const isDark = matchMedia('(prefers-color-scheme: dark)');
const wantsContrast = matchMedia('(prefers-contrast: more)');
const system = signal(0);
for (const one of [isDark, wantsContrast]) one.addEventListener('change', () => { system.value += 1; });

effect(() => {
  system.value;
  const chosen = theme.value;
  const shown = chosen !== 'system' ? chosen : wantsContrast.matches ? 'contrast' : isDark.matches ? 'dark' : 'light';
  document.documentElement.dataset.theme = shown;
  if (chosen === 'system') localStorage.removeItem('theme'); else localStorage.setItem('theme', chosen);
});
effect(() => {
  document.documentElement.dataset.density = density.value;
  localStorage.setItem('density', density.value);
});
